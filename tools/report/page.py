"""The report as one HTML file that needs nothing else: no network, no script."""
import os

import jinja2
from markupsafe import Markup

import theme
from table import Table

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")


def write(title, created, warning, summary, sections):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.tests["table"] = lambda part: isinstance(part, Table)
    with open(os.path.join(_FOLDER, "report.css"), encoding="utf-8") as file:
        css = file.read()
    css = css.replace("/* LIGHT */", theme.css_variables(dark=False)).replace("/* DARK */", theme.css_variables(dark=True))
    # The template marks plots safe: they are our own SVG, whose texts are escaped.
    return environment.get_template("report.html.j2").render(
        title=title, created=created, warning=warning, summary=" ".join(summary), sections=sections, css=Markup(css))
