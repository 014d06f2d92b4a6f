"""Drift by layer: error of the rebuilt K and V, error of the residual stream while decoding, and the recursion's
prediction of it."""
import canvas
import figures
import names
import plots
from axes import set_axis, wants_log
from labels import label_ends
from theme import plot_colour


def plot(document):
    drift = document.get("drift") or {}
    curves = [c for c in drift.get("curves") or [] if c.get("kv_error_k") or c.get("kv_error_v") or c.get("hidden_error")]
    if not drift.get("layers") or not curves:
        return None
    alt = "Relative error by layer. " + " ".join(_words(c) for c in curves)
    caption = ("Relative errors against the consumer's own native state. K and V: Frobenius norm over the transferred positions. "
               "Residual stream: at decoded positions, entering each layer and leaving the last. Dashed: what the recursion of "
               "Lemma 5.1 gives with estimated coefficients. Bands: layers that SCD patches.")
    return plots.make("drift", "Drift by layer", caption, alt, lambda size: _draw(size, drift["layers"], curves))


def _words(curve):
    mode = names.mode(curve["mode"]).label
    parts = []
    for field, what in (("kv_error_k", "K"), ("kv_error_v", "V"), ("hidden_error", "residual stream")):
        known = [v for v in curve.get(field) or [] if v is not None]
        if known:
            parts.append(f"{what} mean {figures.significant(sum(known) / len(known))}, largest {figures.significant(max(known))}")
    return f"{mode}: {'; '.join(parts)}."


def _draw(size, layers, curves):
    panels = [(title, fields) for title, fields in (
        ("Keys", ["kv_error_k"]), ("Values", ["kv_error_v"]), ("Residual stream while decoding", ["hidden_error", "predicted"]))
        if any(any(v is not None for v in c.get(f) or []) for c in curves for f in fields)]
    figure, axes = canvas.panels(size, len(panels), 280 if size is canvas.WIDE else 270)
    ends = []
    for ax, (title, fields) in zip(axes, panels):
        values = [v for c in curves for f in fields for v in c.get(f) or [] if v is not None and v > 0]
        is_hidden = "hidden_error" in fields
        positions = layers + [layers[-1] + 1] if is_hidden else layers
        for layer in sorted({p for c in curves if c["mode"] == "scd" for p in c.get("patch_layers") or []}):
            ax.axvspan(layer - 0.5, layer + 0.5, color=plot_colour("rule"), alpha=0.55, linewidth=0)
        set_axis(ax.xaxis, "layer entered" if is_hidden else "layer", positions, False, pad=0.02)
        set_axis(ax.yaxis, "relative error (ratio)", values, wants_log(values), pad=0.1)
        ax.set_title(title)
        for curve in curves:
            mode = names.mode(curve["mode"])
            for field in fields:
                points = [(x, y) for x, y in zip(positions, curve.get(field) or []) if y is not None and
                          (y > 0 or ax.get_yscale() == "linear")]
                if points:
                    predicted = field == "predicted"
                    ax.plot(*zip(*points), color=plot_colour(mode.colour), linewidth=1.4 if predicted else 1.8,
                            linestyle=(0, (5, 3)) if predicted else "-", marker=None if predicted else mode.marker,
                            markersize=4.5, markeredgecolor="none")
                    ends.append((ax, *points[-1], mode.short + (", predicted" if predicted else ""), mode.colour))
    label_ends(figure, ends)
    return figure
