#!/usr/bin/env python3
"""The completions that a build made, used as shells use them: bash always; zsh and fish where they are installed.
Run: completions_test.py FOLDER_OF_HELP_FILES"""
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HELP = ""
PROGRAMS = ("scd-producer", "scd-consumer", "scd-calibrate", "scd-client", "scd-health", "scd-eval")

# Calls the function that `complete` named, as readline does, with the words of argv; the last one is completed.
BASH = """
source "$1"; program=$2; shift 2
function=$(complete -p "$program" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$program" "$@"); COMP_CWORD=$#
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash(program, *words, folder="."):
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", f"{HELP}/bash/{program}", program, *words], cwd=folder,
                          capture_output=True, text=True, timeout=30, check=True)
    if done.stderr:
        raise AssertionError(done.stderr)
    return [line for line in done.stdout.splitlines() if line]


class BashTest(unittest.TestCase):
    def test_subcommands_and_options(self):
        self.assertEqual(bash("scd-client", "gen"), ["generate"])
        self.assertEqual(sorted(bash("scd-client", ""))[-6:], ["bench", "compare", "generate", "health", "info", "score"])
        self.assertEqual(bash("scd-client", "generate", "--prom"), ["--prompt", "--prompt-file"])
        self.assertEqual(bash("scd-client", "compare", "--prom"), ["--prompt", "--prompts-file"])
        self.assertEqual(bash("scd-client", "info", "--prom"), [])
        self.assertEqual(bash("scd-producer", "--c"), ["--config", "--check"])
        self.assertEqual(bash("scd-health", "--ser"), ["--service"])

    def test_values(self):
        self.assertEqual(bash("scd-client", "generate", "--mode", "quant"), ["quantized", "quantized_rerope"])
        self.assertEqual(bash("scd-client", "generate", "--prompt", "text", "--policy", ""),
                         ["require", "prefer", "off"])
        # --policy=pre as bash cuts it.
        self.assertEqual(bash("scd-client", "score", "--policy", "=", "pre"), ["prefer"])
        self.assertEqual(bash("scd-client", "score", "--policy", "="), ["require", "prefer", "off"])
        self.assertEqual(bash("scd-client", "generate", "--prompt", "gen"), [])
        # The word after an option is its value, not the subcommand.
        self.assertEqual(bash("scd-client", "score", "--prompt", "generate", "--cont"),
                         ["--continuation", "--continuation-ids"])

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a b.yaml", "a.txt", "z"):
                with open(os.path.join(folder, name), "w", encoding="utf-8"):
                    pass
            self.assertEqual(sorted(bash("scd-producer", "--config", "a", folder=folder)), ["a b.yaml", "a.txt"])
            self.assertEqual(bash("scd-client", "compare", "--prompts-file", "z", folder=folder), ["z"])

    def test_positional_files(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "results.json"), "w", encoding="utf-8"):
                pass
            self.assertEqual(bash("scd-eval", "report", "--report", "out", "resu", folder=folder), ["results.json"])
            self.assertEqual(bash("scd-eval", "table", "resu", folder=folder), [])

    def test_every_program_completes(self):
        for program in PROGRAMS:
            self.assertIn("--help", bash(program, "--"))


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class FishTest(unittest.TestCase):
    def complete(self, program, line):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(["fish", "--no-config", "-c", f"source {HELP}/fish/{program}.fish; complete -C '{line}'"],
                                  capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "HOME": home})
        self.assertEqual(done.stderr, "")
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    def test_completions(self):
        self.assertEqual(self.complete("scd-client", "scd-client gen"), ["generate"])
        self.assertEqual(self.complete("scd-client", "scd-client generate --mode quant"), ["quantized", "quantized_rerope"])
        self.assertEqual(self.complete("scd-client", "scd-client generate --prompt-f"), ["--prompt-file"])
        self.assertEqual(self.complete("scd-producer", "scd-producer --conf"), ["--config"])
        for program in PROGRAMS:
            self.assertIn("--help", self.complete(program, f"{program} --"))


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class ZshTest(unittest.TestCase):
    def shows(self, typed, expected):
        """Whether an interactive zsh shows `expected` once `typed` was typed."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "dumb"
            os.execvp("zsh", ["zsh", "-f", "-i"])

        def read_until(text, seconds=20):
            shown, end = b"", time.monotonic() + seconds
            while text not in shown and time.monotonic() < end:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        shown += os.read(terminal, 65536)
                    except OSError:  # the shell has ended
                        break
            return shown

        try:
            setup = ("PS1= RPS1=; unsetopt zle_bracketed_paste prompt_sp prompt_cr; LISTMAX=10000; "
                     f"fpath=({HELP}/zsh $fpath); autoload -Uz compinit; compinit -u -D; echo re''ady\n")
            os.write(terminal, setup.encode())
            self.assertIn(b"ready\r\n", read_until(b"ready\r\n"))
            os.write(terminal, typed.encode())
            return expected.encode() in read_until(expected.encode(), 5)
        finally:
            os.close(terminal)
            os.kill(pid, 9)
            os.waitpid(pid, 0)

    def test_completions(self):
        self.assertTrue(self.shows("scd-client gen\t", "generate"))
        self.assertTrue(self.shows("scd-client generate --mode quantized_r\t", "quantized_rerope"))
        self.assertTrue(self.shows("scd-client generate --prompt-f\t", "--prompt-file"))
        self.assertTrue(self.shows("scd-producer --conf\t", "--config"))
        self.assertTrue(self.shows("scd-health --serv\t", "--service"))

    def test_nothing_where_nothing_fits(self):
        self.assertFalse(self.shows("scd-client info --prompt-f\t", "--prompt-file"))


if __name__ == "__main__":
    HELP = os.path.abspath(sys.argv.pop(1))
    unittest.main()
