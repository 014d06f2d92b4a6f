"""The colours of both themes. A plot is drawn once, in marker colours that stand for CSS variables, so that the page's
theme colours it.

The hues are told apart with the common forms of colour blindness, and have at least 4.5:1 contrast against the page.
"""

# name: (stands for it in a plot, light, dark)
COLOURS = {
    "page": ("#010203", "#ffffff", "#14171b"),
    "ink": ("#010204", "#1b1f24", "#e8eaed"),
    "muted": ("#010205", "#5b636d", "#a3abb5"),
    "rule": ("#010206", "#d9dde2", "#343a42"),
    "panel": ("#010207", "#f5f6f8", "#1c2026"),
    "accent": ("#010208", "#0b5cad", "#74b4ff"),
    "grey": ("#010209", "#666c75", "#b2b8c0"),
    "purple": ("#01020a", "#8e3a86", "#e39bd6"),
    "green": ("#01020b", "#00745c", "#4fcfa8"),
    "orange": ("#01020c", "#b8470a", "#ff9f5c"),
    "blue": ("#01020d", "#0b5cad", "#74b4ff"),
}


def plot_colour(name):
    return COLOURS[name][0]


def css_variables(dark):
    return " ".join(f"--{name}: {colour[2 if dark else 1]};" for name, colour in COLOURS.items())


def themed(svg):
    """Marker colours -> CSS variables."""
    for name, colour in COLOURS.items():
        svg = svg.replace(colour[0], f"var(--{name})")
    return svg
