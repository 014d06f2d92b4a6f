"""Ablations: a heat map for the grid of ranks, lines for what one number changes."""
from matplotlib import colormaps
from matplotlib.patches import Rectangle

import canvas
import figures
import plots
from axes import set_axis, wants_log
from theme import plot_colour

# name: (title, field on x, axis label, caption)
LINES = {
    "rank_h": ("Rank of Patch codes", "rank_h", "rank r_H (columns)",
               "Columns of the attention input sent for each token and Patch layer."),
    "patch_layers": ("Patch budget", "num_patch_layers", "Patch layers (count)",
                     "Layers join in the order of efficiency that the bundle records, the most efficient first."),
    "distortion": ("Distortion of the entropy codec", "distortion", "distortion (ratio)",
                   "Mean square error of a column over the spread of K or V: coarser to the right, fewer bytes."),
    "calibration_prefixes": ("Calibration size", "calibration_prefixes", "calibration prefixes (count)",
                             "The bundle fitted anew on so many prefixes."),
}
# field: axis label
METRICS = {
    "bytes_per_token": "bytes (per token)",
    "kl": "KL to the oracle (nats)",
    "kl_answer": "KL at the answer (nats)",
    "ppl": "perplexity (per token)",
    "ttft_ms_codes_ready": "TTFT, codes ready (ms)",
}


def plot_all(document):
    made = []
    for index, ablation in enumerate(document.get("ablations") or []):
        name, rows = ablation["name"], ablation.get("rows") or []
        plot = _grid(name, index, rows) if name == "ranks" else _lines(name, index, rows)
        if plot is not None:
            made.append((index, plot))
    return made


def _lines(name, index, rows):
    title, field, label, caption = LINES[name]
    rows = sorted((r for r in rows if r.get(field) is not None), key=lambda r: r[field])
    metrics = [m for m in METRICS if sum(r.get(m) is not None for r in rows) >= 2
               and (m != "bytes_per_token" or name == "distortion")]
    if len({r[field] for r in rows}) < 2 or not metrics:
        return None
    alt = f"{title}: " + "; ".join(
        f"{r[field]:g}: " + ", ".join(f"{METRICS[m]} {figures.significant(r.get(m))}" for m in metrics)
        for r in rows) + "."
    return plots.make(f"ablation-{index}", title, caption, alt, lambda size: _draw_lines(size, rows, field, label, metrics))


def _draw_lines(size, rows, field, label, metrics):
    figure, axes = canvas.panels(size, len(metrics), 230)
    for ax, metric in zip(axes, metrics):
        points = [(r[field], r[metric]) for r in rows if r.get(metric) is not None]
        xs = sorted({x for x, _ in points})
        set_axis(ax.xaxis, label, xs, wants_log(xs), pad=0.05, ticks=xs if len(xs) <= 9 else None)
        set_axis(ax.yaxis, METRICS[metric], [y for _, y in points], wants_log([y for _, y in points]), pad=0.15)
        ax.plot(*zip(*points), color=plot_colour("blue"), marker="o", markeredgecolor=plot_colour("page"))
    return figure


def _grid(name, index, rows):
    rows = [r for r in rows if r.get("rank_k") is not None and r.get("rank_v") is not None and r.get("kl") is not None]
    ks, vs = sorted({r["rank_k"] for r in rows}), sorted({r["rank_v"] for r in rows})
    if len(rows) < 2:
        return None
    metrics = ["kl"] + (["kl_answer"] if all(r.get("kl_answer") is not None for r in rows) else [])
    alt = "KL in nats for each pair of ranks: " + "; ".join(
        f"r_K {r['rank_k']:g}, r_V {r['rank_v']:g}: {figures.significant(r['kl'])}" for r in rows) + "."
    caption = "Darker is worse. Each cell gives the value of its pair of ranks; a dash stands where none was measured."
    return plots.make(f"ablation-{index}", "Ranks of K and V", caption, alt,
                      lambda size: _draw_grid(size, rows, ks, vs, metrics))


def _draw_grid(size, rows, ks, vs, metrics):
    figure, axes = canvas.panels(size, len(metrics), max(240, 90 + 44 * len(ks)))
    colours = colormaps["cividis_r"]
    for ax, metric in zip(axes, metrics):
        values = {(r["rank_k"], r["rank_v"]): r[metric] for r in rows}
        low, high = min(values.values()), max(values.values())
        for i, k in enumerate(ks):
            for j, v in enumerate(vs):
                value = values.get((k, v))
                # The lightest and darkest ends are left out: cells stand off the page in both themes.
                shade = None if value is None else colours(0.1 + 0.8 * ((value - low) / (high - low) if high > low else 0))
                ax.add_patch(_cell(j, i, shade))
                light = shade is not None and 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 0.5
                ax.text(j, i, figures.significant(value), ha="center", va="center", fontsize=11,
                        color=plot_colour("muted") if shade is None else "#111111" if light else "#ffffff")
        ax.set_xlim(-0.5, len(vs) - 0.5)
        ax.set_ylim(-0.5, len(ks) - 0.5)
        ax.set_xticks(range(len(vs)), [f"{v:g}" for v in vs])
        ax.set_yticks(range(len(ks)), [f"{k:g}" for k in ks])
        ax.grid(False)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_xlabel("rank r_V (columns per token)")
        ax.set_ylabel("rank r_K (columns per token)")
        ax.set_title(METRICS[metric])
    return figure


def _cell(column, row, shade):
    return Rectangle((column - 0.47, row - 0.46), 0.94, 0.92, facecolor=shade or "none",
                     edgecolor="none" if shade else plot_colour("rule"))
