"""Rate against distortion: bytes a token against KL, one series for each mode, one panel for each group."""
import canvas
import figures
import names
import plots
from axes import set_axis, wants_log
from labels import label_points
from theme import plot_colour

GROUP_TITLES = {"published": "As each is published", "equal": "At equal native positions"}


def plot(document):
    rows = [r for r in document.get("modes") or []
            if r.get("bytes_per_token") and r.get("kl") is not None and r["kl"] > 0]
    groups = [g for g in GROUP_TITLES if any(r["group"] == g for r in rows)]
    if not groups:
        return None
    alt = "Bytes per prompt token against KL divergence in nats. " + " ".join(
        f"{GROUP_TITLES[g]}: " + "; ".join(
            f"{r['row']} {figures.whole(r['bytes_per_token'])} bytes, KL {figures.significant(r['kl'])}"
            for r in rows if r["group"] == g) + "." for g in groups)
    caption = ("Left and down is better. Points of one mode with different codecs or settings are joined. Bytes are those "
               "of serialized messages over all prompt tokens; KL is that of the mode's next-token distribution to the "
               "oracle's.")
    return plots.make("rate", "Rate against distortion", caption, alt, lambda size: _draw(size, rows, groups))


def _draw(size, rows, groups):
    figure, axes = canvas.panels(size, len(groups), 380 if size is canvas.WIDE else 340, share_y=True)
    bytes_all, kl_all = [r["bytes_per_token"] for r in rows], [r["kl"] for r in rows]
    logs = wants_log(bytes_all) or max(bytes_all) / min(bytes_all) > 2, wants_log(kl_all)
    for index, (ax, group) in enumerate(zip(axes, groups)):
        set_axis(ax.xaxis, "bytes per prompt token", bytes_all, logs[0], pad=0.12)
        set_axis(ax.yaxis, "KL to the oracle (nats)", kl_all, logs[1], pad=0.12)
        if index and size is canvas.WIDE:
            ax.set_ylabel("")
        ax.set_title(GROUP_TITLES[group])
        named, lines = [], []
        for name in names.in_order(r["mode"] for r in rows if r["group"] == group):
            mode = names.mode(name)
            series = sorted((r["bytes_per_token"], r["kl"]) for r in rows if r["group"] == group and r["mode"] == name)
            ax.plot(*zip(*series), marker=mode.marker, color=plot_colour(mode.colour), markersize=8 * mode.scale,
                    markeredgecolor=plot_colour("page"), markeredgewidth=0.8)
            named.append((*series[-1], mode.short, mode.colour))
            lines.append(series)
        label_points(figure, ax, named, lines)
    return figure
