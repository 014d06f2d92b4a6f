#!/usr/bin/env python3
"""Writes a program's manual page and its completions of bash, zsh and fish, all from its --help.

Run: make_help_files.py --version V --changelog CHANGELOG.md --sections FILE FOLDER PROGRAM
Makes FOLDER/man/NAME.1 and NAME.1.gz, FOLDER/bash/NAME, FOLDER/zsh/_NAME, FOLDER/fish/NAME.fish. FILE holds sections of the
manual page, in roff, that --help does not have."""
import argparse
import gzip
import os
import re
import sys

import completions
from help_text import HelpError, ask
from manual_page import manual_page


def release_date(changelog, version):
    """When `version` was released, by a heading "## [1.2.3] - 2026-01-31"; empty where it is not yet."""
    found = re.search(rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)$", changelog, re.M)
    return found[1] if found else ""


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--changelog", required=True)
    parser.add_argument("--sections", required=True)
    parser.add_argument("folder")
    parser.add_argument("program")
    arguments = parser.parse_args()
    name = os.path.basename(arguments.program)
    with open(arguments.changelog, encoding="utf-8") as file:
        date = release_date(file.read(), arguments.version)
    with open(arguments.sections, encoding="utf-8") as file:
        sections = file.read()
    try:
        help_ = ask(os.path.abspath(arguments.program), name)
    except HelpError as error:
        print(f"make_help_files: {error}", file=sys.stderr)
        return 1
    page = manual_page(help_, arguments.version, date, sections).encode()
    folder = arguments.folder
    write(f"{folder}/man/{name}.1", page)
    write(f"{folder}/man/{name}.1.gz", gzip.compress(page, mtime=0))
    write(f"{folder}/bash/{name}", completions.bash(help_).encode())
    write(f"{folder}/zsh/_{name}", completions.zsh(help_).encode())
    write(f"{folder}/fish/{name}.fish", completions.fish(help_).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
