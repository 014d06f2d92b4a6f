"""The check of a GPU, checked without one: pack.sh, and device_check.sh over a plug-in that was compiled for the CPU.

Usage: device_check_test.py BUILD_DIR SHIM_PLUGIN
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent
BUILD = SHIM = ""
STEPS = ["device", "parity", "end_to_end", "benchmark", "memcheck", "racecheck"]


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120)


class DeviceCheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name) / "packed"
        # The folder is whole although it is larger than it may be.
        cls.packed = run(SOURCE / "pack.sh", "--build", BUILD, "--out", cls.folder, "--limit-mb", 1)

    def check(self, *arguments):
        """The exit code, the printed text and the document."""
        out = pathlib.Path(self.temporary.name) / "check.json"
        result = run(self.folder / "device_check.sh", "--out", out, *arguments)
        return result.returncode, result.stdout + result.stderr, json.loads(out.read_text())

    def replace(self, name, script):
        """Puts a script in a program's place until the test ends."""
        path = self.folder / "bin" / name
        kept = path.with_suffix(".kept")
        path.rename(kept)
        self.addCleanup(kept.rename, path)
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def test_everything_passes_over_the_shim(self):
        code, text, document = self.check("--quick", "--plugin", SHIM)
        self.assertEqual(code, 0, text + json.dumps(document, indent=1))
        self.assertTrue(document["ok"] and document["complete"])
        self.assertEqual([s["name"] for s in document["steps"]], STEPS)
        steps = {s["name"]: s for s in document["steps"]}
        for name in STEPS[:4]:
            self.assertEqual(steps[name]["status"], "passed", name)
        for name in STEPS[4:]:
            self.assertEqual(steps[name]["status"], "skipped", name)
            self.assertTrue(steps[name]["reason"])
        self.assertIn("fused: tokens", steps["end_to_end"]["output"])
        figures = steps["benchmark"]["figures"]
        self.assertEqual(figures["left_out"], [])
        self.assertGreater(figures["peaks"]["product_tflop_per_s"], 0)
        self.assertEqual({row["form"] for row in figures["transfer"]}, {"reuse", "scd", "fused"})
        for row in figures["transfer"]:
            self.assertGreater(row["rebuild_ms"], 0)
            self.assertGreater(row["links"][0]["computed_cold_ms"], row["links"][0]["computed_ready_ms"])

    def test_a_failed_step_fails_all_and_the_others_still_run(self):
        self.replace("cuda_device_test", 'printf \'a "quoted" \\\\ back\\tslash\\n\\001\\377\'; exit 3')
        self.replace("gpu_benchmark", 'case "$1" in --probe) exit 0;; esac; exit 0')
        self.replace("scd-producer", "echo no; exit 1")
        code, text, document = self.check("--quick", "--plugin", SHIM)
        self.assertEqual(code, 1)
        self.assertFalse(document["ok"])
        self.assertTrue(document["complete"])
        self.assertEqual(document["reason"], "failed: parity end_to_end")
        steps = {s["name"]: s for s in document["steps"]}
        self.assertEqual((steps["parity"]["status"], steps["parity"]["exit"]), ("failed", 3))
        self.assertEqual(steps["parity"]["output"], 'a "quoted" \\ back slash')
        self.assertEqual(steps["benchmark"]["status"], "passed")
        self.assertIn("failed: parity end_to_end", text)

    def test_a_step_that_hangs_is_ended(self):
        self.replace("gpu_benchmark", 'case "$1" in --probe) exit 0;; esac; echo slow; sleep 60')
        self.replace("cuda_device_test", "exit 0")
        self.replace("scd-producer", "exit 1")
        code, _, document = self.check("--quick", "--plugin", SHIM, "--seconds", "4")
        self.assertEqual(code, 1)
        steps = {s["name"]: s for s in document["steps"]}
        self.assertEqual(steps["benchmark"]["status"], "timeout")
        self.assertEqual(steps["benchmark"]["output"], "slow")
        self.assertLess(document["seconds"], 15)

    def test_a_plugin_that_cannot_be_loaded_is_no_missing_gpu(self):
        code, text, document = self.check("--plugin", self.folder / "MANIFEST")
        self.assertEqual(code, 1)
        self.assertIn("device cuda is not possible", document["reason"])
        self.assertIn("device cuda is not possible", text)

    @unittest.skipIf(any(os.path.exists(p) for p in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")), "a GPU is here")
    def test_without_a_gpu_it_says_so(self):
        code, text, document = self.check()
        self.assertEqual(code, 77)
        self.assertFalse(document["ok"])
        self.assertIn("there is no GPU", text)

    def test_programs_take_their_libraries_from_the_folder(self):
        for program in ("scd-producer", "scd-consumer", "scd-client", "gpu_benchmark"):
            listed = run("ldd", self.folder / "bin" / program).stdout
            for line in listed.splitlines():
                name = line.split()[0]
                if "=>" in line and not name.startswith(("libc.", "libm.", "libdl.", "libpthread.", "librt.")):
                    self.assertIn(str(self.folder), line)

    def test_a_folder_that_is_too_large_is_an_error(self):
        self.assertEqual(self.packed.returncode, 1, self.packed.stdout)
        self.assertIn(f"{self.folder} has more than 1 MB", self.packed.stderr)

    def test_the_folder_is_small_enough_and_as_its_manifest_says(self):
        lines = [line.split() for line in (self.folder / "MANIFEST").read_text().splitlines() if line[0] != "#"]
        self.assertLess(sum(int(size) for _, size, _ in lines), 60_000_000)
        for digest, size, name in lines:
            content = (self.folder / name).read_bytes()
            self.assertEqual((hashlib.sha256(content).hexdigest(), str(len(content))), (digest, size), name)


if __name__ == "__main__":
    BUILD, SHIM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
