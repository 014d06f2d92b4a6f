"""A manual page (man macros) of a program's help."""
import re

from help_text import Group


def escape(text):
    """Text as roff shows it: dashes that can be copied, no accidental requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + text if text.startswith((".", "\\(aq")) else text


def sentence(text):
    text = text.strip()
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else text + "."


def note_sentences(note):
    """What CLI11 says after an option's name, in words."""
    found = []
    span = re.search(r"\[(\S+) - (\S+)\]", note)
    if span:
        low, high = (format(float(n), ".10g") for n in span.groups())
        found.append(f"From {low} to {high}.")
    if "POSITIVE" in note:
        found.append("Over 0.")
    excludes = re.search(r"Excludes: ((?:--\S+\s?)+)", note)
    if excludes:
        found.append(f"Not together with {', '.join(excludes[1].split())}.")
    if "REQUIRED" in note:
        found.append("Required.")
    return found


def option_paragraph(option):
    value = ""
    if option.value:
        times = re.search(r" ?x (\d+)", option.note)
        values = [option.value] * (int(times[1]) if times else 1)
        value = " " + " ".join(f"\\fI{escape(v)}\\fR" for v in values)
        if option.flags and "..." in option.note:
            value += " ..."
    names = ", ".join(f"\\fB{escape(flag)}\\fR" for flag in option.flags) if option.flags else ""
    tag = names + value if names else f"\\fI{escape(option.value or option.name)}\\fR"
    words = [sentence(option.text)]
    if option.choices:
        words.append(f"One of: {', '.join(option.choices)}.")
    words += note_sentences(option.note)
    if option.default:
        words.append(f"Default: {option.default}.")
    return [".TP", tag, escape(" ".join(word for word in words if word))]


def group_lines(group):
    lines = []
    if group.name not in ("Options", "Positionals"):
        notes = [sentence(note) for note in group.notes if not note.startswith("[")]
        notes = [note.replace("Exactly one of.", "Exactly one of these is needed.") for note in notes]
        lines += [".PP", f"\\fI{escape(group.name)}.\\fR" + (" " + escape(" ".join(notes)) if notes else "")]
    for option in group.options:
        lines += option_paragraph(option)
    return lines


def footer_lines(footer):
    """The footer as sections: what it says of exit codes, and what stands before that."""
    start = next((i for i, line in enumerate(footer) if line.startswith("Exit codes:")), len(footer))
    lines = []
    if start > 0:
        lines += [".SH NOTES"] + [escape(line) for line in footer[:start]]
    if start < len(footer):
        first = footer[start].removeprefix("Exit codes:").strip()
        lines += [".SH EXIT STATUS"] + [escape(line) for line in [first] + footer[start + 1:]]
    return lines


def synopsis(usage):
    words = []
    for word in usage.split():
        if word.isupper() or word.startswith("["):
            words.append(escape(word))
        elif word.islower() and words and words[-1].endswith("]") :
            words.append(f"\\fI{escape(word.upper())}\\fR")
        else:
            words.append(f"\\fB{escape(word)}\\fR")
    return " ".join(words)


def manual_page(help_, version, date, sections):
    """`sections`: further roff, which stands between the options and SEE ALSO. -> the page's text"""
    name = help_.program
    summary = help_.description.rstrip(".")
    lines = [f'.TH {escape(name.upper())} 1 "{date}" "SCD {escape(version)}" "SCD manual"', ".SH NAME",
             f"{escape(name)} \\- {escape(summary[0].lower() + summary[1:])}", ".SH SYNOPSIS"]
    commands = help_.subcommands
    lines += [synopsis(command.usage) + "\n.br" for command in commands] or [synopsis(help_.usage)]
    lines += [".SH DESCRIPTION", escape(sentence(help_.description))]
    if commands:
        lines += [".PP", "The subcommands:"]
        for command in commands:
            lines += [".TP", f"\\fB{escape(command.command)}\\fR", escape(sentence(command.summary))]
    lines += [".SH OPTIONS"]
    for group in help_.groups:
        lines += group_lines(group)
    for command in commands:
        lines += [f".SH OPTIONS OF {escape(command.command.upper())}", escape(sentence(command.description))]
        for group in command.groups:
            lines += group_lines(Group(group.name, group.notes, [o for o in group.options if "--help" not in o.flags]))
    lines += footer_lines(help_.footer) + [sections.strip()]
    text = "\n".join(line for line in lines if line) + "\n"
    return text.replace("\n.br\n.SH", "\n.SH")
