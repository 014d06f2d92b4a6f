"""Drift by layer, with the estimated coefficients of the recursion, and where they do not hold."""
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
        violated = set(curve.get("violated") or [])
        longest = max(len(curve[f[0]]) for f in fields)
        lines = []
        for index in range(longest):
            name = f"{layers[index]:g}" if index < len(layers) else "after the last"
            cells = [figures.significant(curve[f][index] if index < len(curve[f]) else None) for f, _, _ in fields]
            held = figures.MISSING if index >= len(layers) else "violated" if layers[index] in violated else "holds"
            lines.append([name] + cells + [held])
        columns = [Column("Layer", words=True)] + [Column(n, u) for _, n, u in fields] + [Column("Estimates", words=True)]
        made.append(Table(f"{label(curve)}: every layer", columns, lines, folded=True))
    return made


def violations(document):
    """A sentence for each curve."""
    return [f"{label(curve)}: the estimates are violated in "
            f"{'no layer' if not curve.get('violated') else 'layers ' + figures.layers(curve['violated'])}."
            for curve in (document.get("drift") or {}).get("curves") or [] if curve.get("violated") is not None]
