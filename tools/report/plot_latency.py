"""Time to first token against the link's bandwidth: one panel for each prefix length, measured and computed points
told apart."""
import canvas
import figures
import names
import plots
from axes import plain, set_axis
from labels import label_ends
from theme import plot_colour

FIELDS = {
    "ttft_ms_cold": ("ttft-cold", "Time to first token, producer starts from nothing",
                     "The producer prefills the prompt while its codes travel."),
    "ttft_ms_codes_ready": ("ttft-ready", "Time to first token, codes ready",
                            "The producer has the codes of this prompt already."),
}
_LOOPBACK_STEP = 10  # loopback stands this factor right of the fastest link


def plot_all(document):
    rows = (document.get("latency") or {}).get("rows") or []
    made = []
    for field, (name, title, caption) in FIELDS.items():
        usable = [r for r in rows if r.get(field) and r[field] > 0 and r["prefix_tokens"] > 0]
        if usable:
            made.append(plots.make(name, title, caption + " Filled: measured over that link. Hollow, dashed: computed as "
                                   "bytes / bandwidth + measured stage times. The line across is the consumer's own prefill.",
                                   _alt(usable, field, title), lambda size, u=usable, f=field: _draw(size, u, f)))
    return made


def _alt(rows, field, title):
    parts = [f"{r.get('row') or r['mode']}, {r['prefix_tokens']:g} tokens, {figures.link(r.get('link_mbit_s'))}: "
             f"{figures.milliseconds(r[field])} ms{'' if r['measured'] else ' (computed)'}" for r in rows]
    return f"{title}, in milliseconds against link bandwidth. " + "; ".join(parts) + "."


def _draw(size, rows, field):
    prefixes = sorted({r["prefix_tokens"] for r in rows})
    figure, axes = canvas.panels(size, len(prefixes), 330 if size is canvas.WIDE else 320)
    links = sorted({r["link_mbit_s"] for r in rows if r.get("link_mbit_s")})
    loopback = (links[-1] if links else 1000.0) * _LOOPBACK_STEP
    place = lambda row: row.get("link_mbit_s") or loopback
    ends = []
    for ax, prefix in zip(axes, prefixes):
        mine = [r for r in rows if r["prefix_tokens"] == prefix]
        times = [r[field] for r in mine] + [r["ttft_ms_native"] for r in mine if r.get("ttft_ms_native")]
        _link_axis(ax, links, loopback, any(r.get("link_mbit_s") is None for r in rows))
        log = max(times) / min(times) > 4
        set_axis(ax.yaxis, "time to first token (ms)", times, log, pad=0.12)
        ax.set_title(f"{plain(prefix)} prompt tokens")
        for name in names.in_order(r["mode"] for r in mine):
            mode, colour = names.mode(name), plot_colour(names.mode(name).colour)
            for label in dict.fromkeys(r.get("row") or name for r in mine if r["mode"] == name):
                series = sorted((place(r), r[field], r["measured"]) for r in mine
                                if r["mode"] == name and (r.get("row") or name) == label)
                _curve(ax, series, colour, mode)
                last = max(series, key=lambda p: (p[0], p[2]))
                ends.append((ax, *last[:2], mode.short if label == name else label, mode.colour))
        native = sorted(r["ttft_ms_native"] for r in mine if r.get("ttft_ms_native"))
        if native:
            middle = native[len(native) // 2]
            ax.axhline(middle, color=plot_colour("ink"), linewidth=1.2, linestyle=(0, (6, 3)))
            ends.append((ax, ax.get_xlim()[1], middle, "native", "ink"))
    label_ends(figure, ends)
    return figure


def _link_axis(ax, links, loopback, has_loopback):
    values = links + ([loopback] if has_loopback else [])
    set_axis(ax.xaxis, "link bandwidth (Mbit/s)", values, True, pad=0.06, ticks=values)
    ax.set_xticklabels([_short_link(v) for v in links] + (["loop-\nback"] if has_loopback else []))
    ax.set_xlabel("link bandwidth (bit/s)")


def _short_link(mbit_s):
    return f"{mbit_s / 1000:g}G" if mbit_s >= 1000 else f"{mbit_s:g}M"


def _curve(ax, series, colour, mode):
    # Where a link was measured, what was computed for it stands beside the curve.
    measured_at = {x for x, _, m in series if m}
    joined = [p for p in series if p[2] or p[0] not in measured_at]
    for (x0, y0, m0), (x1, y1, m1) in zip(joined, joined[1:]):
        ax.plot([x0, x1], [y0, y1], color=colour, linewidth=1.6, linestyle="-" if m0 and m1 else (0, (2, 2)))
    for measured in (True, False):
        points = [(x, y) for x, y, m in series if m is measured]
        if points:
            ax.plot(*zip(*points), linestyle="none", marker=mode.marker, color=colour, markersize=6.5 * mode.scale,
                    markerfacecolor=colour if measured else plot_colour("page"),
                    markeredgecolor=plot_colour("page") if measured else colour,
                    markeredgewidth=0.6 if measured else 1.4)
