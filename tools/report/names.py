"""The transfer modes: names, order, and what marks each in every plot (colour and shape, so that neither is needed)."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    label: str   # in tables
    short: str   # beside a curve
    colour: str  # a theme colour of theme.py
    marker: str  # of matplotlib

    @property
    def scale(self):
        """Crosses look smaller than discs of one size."""
        return 1.3 if self.marker in "PX" else 1.1 if self.marker in "v^" else 0.9 if self.marker in "sD" else 1.0


MODES = {
    "local": Mode("oracle (native prefill)", "native", "ink", "o"),
    "raw": Mode("raw KV", "raw", "grey", "v"),
    "raw_rerope": Mode("raw KV, re-roped", "raw re-roped", "grey", "^"),
    "quantized": Mode("quantised KV", "quantised", "purple", "s"),
    "quantized_rerope": Mode("quantised KV, re-roped", "quantised re-roped", "purple", "D"),
    "selective": Mode("selective recompute", "selective", "green", "P"),
    "reuse": Mode("Reuse only", "Reuse", "orange", "X"),
    "scd": Mode("SCD (Reuse + Patch)", "SCD", "blue", "o"),
    "fused": Mode("SCD (Fused)", "Fused", "blue", "s"),
}


def mode(name):
    return MODES.get(name, Mode(name, name, "ink", "o"))


def in_order(names):
    """Each name once: known modes in the order above, then others as they come."""
    present = list(dict.fromkeys(names))
    return [name for name in MODES if name in present] + [name for name in present if name not in MODES]
