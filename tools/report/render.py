#!/usr/bin/env python3
"""Renders a results document of scd-eval.

Run: tools/report/render.py RESULTS.json OUT_DIR

Writes OUT_DIR/report.html (self-contained, light and dark), OUT_DIR/report.md and OUT_DIR/results.json (a copy). Needs
matplotlib and Jinja2 (Debian: python3-matplotlib, python3-jinja2). Exit status: 0, 1 where the document or a file is
wrong (one line says what), 2 for a wrong command line, 3 where a package is missing.
"""
import os
import shutil
import sys

SYSTEM_PYTHON = "/usr/bin/python3"


def main(arguments):
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    try:
        import jinja2  # noqa: F401
        import matplotlib
    except ImportError as error:
        # Another python3 may come first in PATH than the one that Debian's packages belong to.
        if os.path.exists(SYSTEM_PYTHON) and sys.flags.safe_path == 0 and "-P" not in sys.orig_argv[:2]:
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-P", os.path.abspath(__file__), *arguments])
        print(f"render: {error.name} is not installed for {sys.executable} "
              "(apt-get install python3-matplotlib python3-jinja2)", file=sys.stderr)
        return 3
    matplotlib.use("svg")
    return render(*arguments)


def render(source, folder):
    import markdown
    import page
    import schema
    import sections
    try:
        document = schema.load(source)
        made = sections.build(document)
        title, warning, summary = sections.title(document), sections.warning(document), sections.summary(document)
        os.makedirs(folder, exist_ok=True)
        _write(os.path.join(folder, "report.html"), page.write(title, document["created"], warning, summary, made))
        _write(os.path.join(folder, "report.md"), markdown.write(title, warning, summary, made))
        copy = os.path.join(folder, "results.json")
        if not (os.path.exists(copy) and os.path.samefile(source, copy)):
            shutil.copyfile(source, copy)
    except schema.SchemaError as error:
        print(f"render: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"render: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _write(path, text):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(sys.argv[1:]))
