"""Drift by layer, with the estimated coefficients of the recursion, and where its prediction is exceeded."""
import figures
import names
from table import Column, Table


def label(curve):
    patched = curve.get("patch_layers")
    return names.mode(curve["mode"]).label + (f", patched {figures.layers(patched)}" if patched else "")


def tables(document):
    drift = document.get("drift") or {}
    layers = drift.get("layers") or []
    made = []
    for curve in drift.get("curves") or []:
        fields = [("kv_error_k", "K error", "ratio"), ("kv_error_v", "V error", "ratio"), ("hidden_error", "Hidden error", "ratio"),
                  ("predicted", "Predicted", "ratio"), ("alpha", "alpha", "estimate"), ("beta", "beta", "estimate"),
                  ("eps", "eps", "estimate")]
        fields = [f for f in fields if curve.get(f[0])]
        if not fields or not layers:
            continue
        judged = curve.get("violated") is not None
        violated = set(curve.get("violated") or [])
        longest = max(len(curve[f[0]]) for f in fields)
        lines = []
        for index in range(longest):
            layer = layers[index] if index < len(layers) else layers[-1] + 1
            name = f"{layer:g}" if index < len(layers) else "after the last"
            cells = [figures.significant(curve[f][index] if index < len(curve[f]) else None) for f, _, _ in fields]
            lines.append([name] + cells + (["exceeded" if layer in violated else "holds"] if judged else []))
        columns = [Column("Layer", words=True)] + [Column(n, u) for _, n, u in fields] + \
                  ([Column("Prediction", words=True)] if judged else [])
        made.append(Table(f"{label(curve)}: every layer", columns, lines, folded=True))
    return made


def violations(document):
    """A sentence for each curve."""
    drift = document.get("drift") or {}
    last = (drift.get("layers") or [0])[-1]

    def where(violated):
        entering = [layer for layer in violated if layer <= last]
        parts = ["entering layer " + figures.ranges(entering)] if entering else []
        return " and ".join(parts + (["leaving the last"] if any(layer > last for layer in violated) else []))

    return [f"{label(curve)}: the measured error exceeds the recursion's prediction " +
            (where(curve["violated"]) if curve["violated"] else "nowhere") + "."
            for curve in drift.get("curves") or [] if curve.get("violated") is not None]
