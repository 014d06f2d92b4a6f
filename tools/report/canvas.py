"""Figures of matplotlib, drawn for two widths and written as SVG that stands inside a page and takes its theme.

One unit of a figure is one CSS pixel. The same input gives the same bytes.
"""
import io
import math
import re
from dataclasses import dataclass

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from theme import plot_colour, themed


@dataclass(frozen=True)
class Size:
    """What a figure is drawn for: a page on a desk, or a phone."""
    name: str
    width: int    # CSS pixels
    columns: int  # panels side by side


WIDE = Size("wide", 1040, 2)
NARROW = Size("narrow", 350, 1)

_STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "scd",
    "font.family": ["DejaVu Sans"], "font.size": 12, "axes.titlesize": 13, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 12, "xtick.labelsize": 11, "ytick.labelsize": 11,
    "text.color": plot_colour("ink"), "axes.labelcolor": plot_colour("muted"), "axes.titlecolor": plot_colour("ink"),
    "xtick.color": plot_colour("muted"), "ytick.color": plot_colour("muted"), "axes.edgecolor": plot_colour("muted"),
    "axes.facecolor": "none", "figure.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": plot_colour("rule"), "grid.linewidth": 0.8,
    "axes.linewidth": 0.8, "lines.linewidth": 1.8, "lines.markersize": 7, "axes.unicode_minus": True,
}


def style():
    """The context that figures are made and written in."""
    return matplotlib.rc_context(_STYLE)


def panels(size, count, panel_height, share_y=False):
    """-> (figure, its axes), as many side by side as the size has room for. Inside style() only."""
    columns = 3 if size is WIDE and count in (3, 5, 6, 9) else min(size.columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(size.width / 72, rows * panel_height / 72), dpi=72)
    FigureCanvasSVG(figure)
    figure.set_layout_engine("constrained", w_pad=8 / 72, h_pad=8 / 72)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share_y)
    axes = [ax for line in grid for ax in line]
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def to_svg(figure, prefix, alt):
    """The figure as an <svg> element whose ids all start with `prefix`. Inside style() only."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)
    svg = re.sub(r"<title>.*?</title>\s*", "", svg, flags=re.S)
    svg = svg.replace("xlink:href", "href")
    # Ids are numbered as they come: unique in a page with several figures.
    numbers = {}
    for name in re.findall(r'\bid="([^"]+)"', svg):
        numbers.setdefault(name, f"{prefix}-{len(numbers)}")
    svg = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{numbers[m[1]]}"', svg)
    svg = re.sub(r'href="#([^"]+)"', lambda m: f'href="#{numbers[m[1]]}"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{numbers[m[1]]})", svg)
    svg = svg.replace("'DejaVu Sans'", "var(--sans)")
    view_box = re.search(r'viewBox="([^"]+)"', svg)[1]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view_box}" role="img" aria-label="{_attribute(alt)}">'
    return themed(re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1)).strip()


def _attribute(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
