"""How numbers are written: as many digits as they carry, thousands apart, a dash where there is none."""

MISSING = "–"


def whole(value):
    return MISSING if value is None else f"{value:,.0f}"


def fixed(decimals):
    return lambda value: MISSING if value is None else f"{value:,.{decimals}f}"


def significant(value, digits=3):
    """Three significant digits without an exponent: 7.49, 0.0263, 0.00004."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    text = f"{value:.{digits - 1}e}"
    exponent = int(text.split("e")[1])
    if exponent < -6:
        return text
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def milliseconds(value):
    if value is None:
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def link(mbit_s):
    """A link's rate in words; None is loopback."""
    if mbit_s is None:
        return "loopback"
    return f"{mbit_s / 1000:g} Gbit/s" if mbit_s >= 1000 else f"{mbit_s:g} Mbit/s"


def layers(values):
    return "none" if not values else ", ".join(f"{v:g}" for v in values)


def ranges(values):
    """1, 2, 3, 7 -> 1 to 3, 7"""
    runs = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(f"{a:g}" if a == b else f"{a:g}, {b:g}" if b == a + 1 else f"{a:g} to {b:g}" for a, b in runs)


def text(value):
    return MISSING if value is None or value == "" else str(value)
