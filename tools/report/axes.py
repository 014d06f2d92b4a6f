"""Axes that say what they show: names with units, plain numbers as ticks, a logarithm where values span decades."""
import math

from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

_LOG_FROM_RATIO = 8  # the largest value over the smallest from which a logarithm reads better


def wants_log(values):
    positive = [v for v in values if v is not None and v > 0]
    return bool(positive) and len(positive) == len([v for v in values if v is not None]) and \
        max(positive) / min(positive) >= _LOG_FROM_RATIO


def plain(value, _=None):
    """1,000  20  0.05  without exponents down to a millionth."""
    if value == 0:
        return "0"
    if abs(value) < 1e-6:
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value)) + 1))
    text = f"{value:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "\u2212")


def _by_step(ticks):
    """A formatter with as many decimals as tell neighbouring ticks apart."""
    step = min((b - a for a, b in zip(ticks, ticks[1:])), default=1.0)
    decimals = next((d for d in range(9) if abs(step * 10**d - round(step * 10**d)) < 1e-6 * max(1.0, step * 10**d)), 9)
    return lambda value, _=None: f"{value:,.{decimals}f}".replace("-", "\u2212")


def log_ticks(low, high):
    """Round numbers in [low, high], from the coarsest set that has three of them."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]
        if len(ticks) >= 3:
            return ticks
    return ticks


def set_axis(axis, label, values, log, pad=0.08, ticks=None):
    """axis: ax.xaxis or ax.yaxis. Sets label, scale, limits (room of `pad` of the range at both ends) and ticks."""
    ax, is_x = axis.axes, axis.axis_name == "x"
    set_scale, set_limits = (ax.set_xscale, ax.set_xlim) if is_x else (ax.set_yscale, ax.set_ylim)
    (ax.set_xlabel if is_x else ax.set_ylabel)(label)
    values = [v for v in values if v is not None and (v > 0 or not log)]
    low, high = (min(values), max(values)) if values else (1.0, 10.0) if log else (0.0, 1.0)
    if log:
        room = max((high / low) ** pad, 1.08)
        low, high = low / room, high * room
        set_scale("log")
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_locator(FixedLocator(ticks or log_ticks(low, high)))
    else:
        room = (high - low) * pad or abs(high) * pad or 1.0
        low, high = low - room, high + room
        ticks = ticks or MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(plain if log else _by_step(ticks)))
    set_limits(low, high)
