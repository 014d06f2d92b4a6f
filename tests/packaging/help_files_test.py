#!/usr/bin/env python3
"""tools/help_files: --help as CLI11 lays it out is read whole, and text that is laid out otherwise is refused."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/help_files"))
# pylint: disable=wrong-import-position
import completions
from help_text import Help, HelpError, parse_help
from make_help_files import release_date
from manual_page import manual_page

TEXT = """Does things - all of them.
Usage: tool run [OPTIONS] files...

Positionals:
  files FILE ... REQUIRED     What is read

Options:
  -h,--help                   Print this help message and exit
  -a,--address TEXT=127.0.0.1:7071
                              Where it is
  --share UINT:INT in [0 - 20]
                              With a space in column 29
  --set KEY=VALUE             Override, for example a.b=c; repeatable
  --mode TEXT:{one,two}=one   How
  --json                      One document
  --pair UINT:INT in [0 - 65535] x 2 Excludes: --json
                              Two of them
[Option Group: Input]
  Exactly one of
  [Exactly 1 of the following options is required]
  Options:
    --text TEXT                 It's here
    --text-file TEXT            A file: [with] 'quotes'
    --out DIR                   A folder

Subcommands:
  go                          Goes

Exit codes: 0 good, 1 bad.
More of it.
"""


class HelpTextTest(unittest.TestCase):
    def setUp(self):
        self.help = parse_help("tool", TEXT)
        self.options = {option.flags[-1]: option for option in self.help.options()}

    def test_parts(self):
        self.assertEqual(self.help.description, "Does things - all of them.")
        self.assertEqual(self.help.usage, "tool run [OPTIONS] files...")
        self.assertEqual([group.name for group in self.help.groups], ["Positionals", "Options", "Input"])
        self.assertEqual([(h.command, h.summary) for h in self.help.subcommands], [("go", "Goes")])
        self.assertEqual(self.help.footer, ["Exit codes: 0 good, 1 bad.", "More of it."])
        self.assertEqual([p.name for p in self.help.positionals()], ["files"])
        self.assertEqual(self.help.positionals()[0].takes, "file")

    def test_options(self):
        self.assertEqual(list(self.options), ["--help", "--address", "--share", "--set", "--mode", "--json", "--pair",
                                              "--text", "--text-file", "--out"])
        address = self.options["--address"]
        self.assertEqual((address.flags, address.value, address.default, address.text),
                         (["-a", "--address"], "TEXT", "127.0.0.1:7071", "Where it is"))
        share = self.options["--share"]
        self.assertEqual((share.value, share.note, share.text), ("UINT", "[0 - 20]", "With a space in column 29"))
        self.assertEqual((self.options["--set"].value, self.options["--set"].default), ("KEY=VALUE", ""))
        mode = self.options["--mode"]
        self.assertEqual((mode.choices, mode.default, mode.text), (["one", "two"], "one", "How"))
        self.assertEqual({flag: option.takes for flag, option in self.options.items()},
                         {"--help": "", "--address": "other", "--share": "other", "--set": "other", "--mode": "choice",
                          "--json": "", "--pair": "other", "--text": "other", "--text-file": "file", "--out": "folder"})

    def test_other_layouts_are_refused(self):
        for text in ("", "Options:\n  -h\n", "Usage: tool\n\nOptions:\n -h,--help   Help\n",
                     "Usage: tool\n\n[Option Group: Input]\n  Exactly one of\n"):
            with self.assertRaises(HelpError, msg=text):
                parse_help("tool", text)

    def test_manual_page(self):
        page = manual_page(self.help, "1.2.3", "2026-01-31", ".SH FILES\nnone\n")
        for line in ('.TH TOOL 1 "2026-01-31" "SCD 1.2.3" "SCD manual"', "tool \\- does things \\- all of them",
                     "\\fB\\-a\\fR, \\fB\\-\\-address\\fR \\fITEXT\\fR", "Where it is. Default: 127.0.0.1:7071.",
                     "How. One of: one, two. Default: one.", "With a space in column 29. From 0 to 20.",
                     "\\fB\\-\\-pair\\fR \\fIUINT\\fR \\fIUINT\\fR",
                     "Two of them. From 0 to 65535. Not together with \\-\\-json.",
                     "\\fIInput.\\fR Exactly one of these is needed.", "What is read. Required.", ".SH EXIT STATUS",
                     "0 good, 1 bad.", "A file: [with] \\(aqquotes\\(aq."):
            self.assertIn(line, page.splitlines())
        self.assertLess(page.index(".SH EXIT STATUS"), page.index(".SH FILES"))

    def test_quotes_survive_in_completions(self):
        self.help.subcommands = [Help("tool", "go", "It's fine", usage="tool go")]
        self.assertIn("'\\''quotes'\\''", completions.zsh(self.help))
        self.assertIn("\\[with\\]", completions.zsh(self.help))
        self.assertIn("\\'quotes\\'", completions.fish(self.help))
        self.assertNotIn("quotes", completions.bash(self.help))

    def test_release_date(self):
        changelog = "## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n## [1.2.0] - 2025-12-24\n"
        self.assertEqual(release_date(changelog, "1.2.3"), "2026-01-31")
        self.assertEqual(release_date(changelog, "1.2"), "")
        self.assertEqual(release_date(changelog, "1x2.3"), "")


if __name__ == "__main__":
    unittest.main()
