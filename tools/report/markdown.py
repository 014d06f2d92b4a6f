"""The report as Markdown: every table and number; plots are in the page."""
from table import Table


def write(title, warning, summary, sections):
    out = [f"# {escape(title)}", ""]
    if warning:
        out += [f"**{escape(warning)}**", ""]
    if summary:
        out += [escape(" ".join(summary)), ""]
    for section in sections:
        tables = [part for part in section.parts if isinstance(part, Table)]
        if not (section.text or tables or section.code):
            continue
        out += [f"## {escape(section.title)}", ""]
        for paragraph in section.text:
            out += [escape(paragraph), ""]
        for table in tables:
            out += _table(table)
        for note in section.notes:
            out += [escape(note), ""]
        if section.code:
            out += _code(section.code)
    return "\n".join(out).rstrip("\n") + "\n"


def escape(text):
    """Text that Markdown and its HTML take as it is."""
    text = " ".join(str(text).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*_[]|#~":
        text = text.replace(sign, "\\" + sign)
    return text


def _table(table):
    """Columns under one span become a table of their own: Markdown has one line of heads. Long tables are folded."""
    caption = escape(table.caption)
    out, at = (["<details>", f"<summary>{caption}</summary>", ""] if table.folded else [caption, ""]), 1
    for label, count in table.spans[1:] or [("", len(table.columns) - 1)]:
        keep = [0, *range(at, at + count)]
        at += count
        columns = [table.columns[i] for i in keep]
        heads = [column.name + (f" ({column.unit})" if column.unit else "") for column in columns]
        rule = [":--" if column.words or i == 0 else "--:" for i, column in enumerate(columns)]
        out += [f"**{escape(label)}**", ""] if label else []
        out += [_line(map(escape, heads)), _line(rule)]
        out += [_line(escape(row[i]) for i in keep) for row in table.rows] + [""]
    return out + (["</details>", ""] if table.folded else [])


def _line(cells):
    return "| " + " | ".join(cells) + " |"


def _code(lines):
    text = [line.replace("\r", " ").replace("\n", " ") for line in lines]
    longest = max((len(run) for line in text for run in _runs(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + "sh"] + text + [fence, ""]


def _runs(line):
    run = ""
    for sign in line + " ":
        if sign == "`":
            run += sign
        elif run:
            yield run
            run = ""
