"""What a program says to --help, as data: the description, the options in their groups, the subcommands, the footer.

Reads the layout of CLI11's help, in which an option's name starts two columns in and its text in column 30, on the same
line where the name leaves room for it."""
import re
import subprocess
from dataclasses import dataclass, field

TEXT_COLUMN = 30  # of an option's text, in blocks that are not indented


@dataclass
class Option:
    flags: list          # ["-a", "--address"]; empty for a positional argument
    name: str            # a positional argument's
    value: str           # "TEXT", "FILE", ...; empty: the option takes none
    choices: list        # the values allowed, where they are words
    note: str            # the rest that stands after the name: ranges, "REQUIRED", "Excludes: --x"
    default: str
    text: str

    @property
    def takes(self):
        """What a shell completes as the value: "choice", "file", "folder", "other", or "" where there is none."""
        if self.flags and not self.value:
            return ""
        if self.choices:
            return "choice"
        if self.value.startswith("DIR"):
            return "folder"
        if self.value.startswith("FILE") or any(flag.endswith("-file") for flag in self.flags):
            return "file"
        return "other"


@dataclass
class Group:
    name: str
    notes: list = field(default_factory=list)
    options: list = field(default_factory=list)


@dataclass
class Help:
    program: str
    command: str = ""    # empty: of the program itself
    summary: str = ""    # of a subcommand, in the program's list
    description: str = ""
    usage: str = ""
    groups: list = field(default_factory=list)       # the first is "Options" or "Positionals"
    subcommands: list = field(default_factory=list)  # Help of each
    footer: list = field(default_factory=list)

    def options(self):
        return [option for group in self.groups for option in group.options if option.flags]

    def positionals(self):
        return [option for group in self.groups for option in group.options if not option.flags]


class HelpError(Exception):
    """Text that is not laid out as expected."""


def parse_option(head, text):
    """`head`: an option's names and what stands after them, for example "-a,--address TEXT=127.0.0.1:7071"."""
    words = head.split(None, 1)
    names, rest = words[0], words[1] if len(words) > 1 else ""
    flags = names.split(",") if names.startswith("-") else []
    value = default = ""
    choices = []
    # TYPE, then validators after colons, then =DEFAULT, then words: "UINT:INT in [0 - 20]=3 REQUIRED".
    match = re.match(r"(?P<type>[A-Z][A-Z0-9_/]*(?:=[A-Z][A-Z0-9_/]*(?![^\s:]))?)(?P<rest>.*)$", rest)
    note = rest
    if match and not re.match(r"(REQUIRED|Excludes:|Needs:)", rest):
        value, note = match["type"], match["rest"]
        found = re.match(r":\{([^}]*)\}", note)
        if found:
            choices, note = found[1].split(","), note[found.end():]
        found = re.match(r"(?P<check>:[^=]*?)?=(?P<default>\S+)", note)
        if found:
            default, note = found["default"], (found["check"] or "") + note[found.end():]
    note = re.sub(r"^:(?:FLOAT|INT|UINT) in ", "", note.strip())
    note = re.sub(r"(?<!\S):", "", note).strip()
    return Option(flags, "" if flags else names, value, choices, note, default, text)


def read_block(lines, column):
    """Options of the lines of one block, in which texts start in `column`."""
    options = []
    indent = " " * (column - TEXT_COLUMN + 2)
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith(" " * column):
            options[-1] = (options[-1][0], (options[-1][1] + " " + line.strip()).strip())
        elif line.startswith(indent) and not line.startswith(indent + " "):
            # A name that reaches beyond the column may have a space just there; then its text stands below.
            long_name = below.startswith(" " * column) and line[column - 2:column - 1] != " "
            if len(line) > column and line[column - 1] == " " and not long_name:
                options.append((line[:column].strip(), line[column:].strip()))
            else:
                options.append((line.strip(), ""))
        else:
            raise HelpError(f"no option: {line!r}")
    return options


def parse_help(program, text):
    help_ = Help(program)
    lines = [line.rstrip() for line in text.splitlines()]
    usage = next((i for i, line in enumerate(lines) if line.startswith("Usage:")), None)
    if usage is None:
        raise HelpError(f"{program}: no usage line")
    help_.description = " ".join(line.strip() for line in lines[:usage]).strip()
    help_.usage = lines[usage].split(":", 1)[1].strip()
    subcommands = []
    i = usage + 1
    while i < len(lines):
        line = lines[i]
        i += 1
        if not line:
            continue
        block = []
        while i < len(lines) and (lines[i].startswith(" ") or (block and not lines[i] and i + 1 < len(lines)
                                                               and lines[i + 1].startswith(" "))):
            if lines[i]:
                block.append(lines[i])
            i += 1
        group = re.match(r"\[Option Group: (.*)\]$", line)
        if group:
            start = next((n for n, inner in enumerate(block) if inner.strip() in ("Options:", "Positionals:")), None)
            if start is None:
                raise HelpError(f"{program}: group {group[1]} has no options")
            notes = [inner.strip() for inner in block[:start]]
            options = read_block(block[start + 1:], TEXT_COLUMN + 2)
            help_.groups.append(Group(group[1], notes, [parse_option(*option) for option in options]))
        elif line in ("Options:", "Positionals:"):
            help_.groups.append(Group(line[:-1], [], [parse_option(*o) for o in read_block(block, TEXT_COLUMN)]))
        elif line == "Subcommands:":
            subcommands = read_block(block, TEXT_COLUMN)
        else:
            help_.footer.append(line)
            help_.footer += [inner.strip() for inner in block]
    help_.subcommands = [Help(program, name, summary) for name, summary in subcommands]
    return help_


def say(path, *arguments):
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise HelpError(f"{path} {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def ask(path, program):
    """The help of the program at `path`, and of each of its subcommands."""
    help_ = parse_help(program, say(path, "--help"))
    for number, listed in enumerate(help_.subcommands):
        command = parse_help(program, say(path, listed.command, "--help"))
        command.command, command.summary = listed.command, listed.summary
        help_.subcommands[number] = command
    return help_
