"""All plots of a document, each drawn wide and narrow, with a caption and words for those who do not see it."""
from dataclasses import dataclass

import canvas


@dataclass(frozen=True)
class Plot:
    name: str      # unique in the page
    title: str
    caption: str
    alt: str
    wide: str      # <svg>
    narrow: str    # <svg>


def make(name, title, caption, alt, draw):
    """draw(size) -> a figure, called inside canvas.style()."""
    with canvas.style():
        drawn = {size.name: canvas.to_svg(draw(size), f"{name}-{size.name}", alt)
                 for size in (canvas.WIDE, canvas.NARROW)}
    return Plot(name, title, caption, alt, drawn["wide"], drawn["narrow"])
