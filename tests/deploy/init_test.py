#!/usr/bin/env python3
"""deploy/init.sh with the real models/get_models.sh and scd-calibrate: the volume is filled once, a second run does nothing, a
changed configuration is told and fitted when asked for, a stop reaches the program that works, and faults are told."""
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from deploy_paths import DEPLOY, ROOT, program, read
from processes import Process

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
BASE = os.path.join(ROOT, "models/base", MODEL)
INIT = os.path.join(DEPLOY, "init.sh")
CALIBRATE = """
producer: {path: MODEL}
consumer: {path: MODEL}
output: MODELS/bundle
work_dir: MODELS/calibrate-work
corpus:
  sources:
    - self_sample: {num_prefixes: PREFIXES, tokens: 24, seeds: SEEDS}
ranks: {k: 4, v: 4, h: [8]}
native_tail: 2
patch: {layers: [0], count: 1, candidates: [0]}
selective: {profile: false}
aligner: {mlp_width: 8, max_epochs: 1}
measure: {sweep_prefixes: 1, quality_prefixes: 1, scored_tokens: 4}
"""


class InitTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("models", "local", "share/models", "bin"):
            os.makedirs(os.path.join(self.folder, name))
        shutil.copy(os.path.join(ROOT, "models/get_models.sh"), self.path("share/models"))
        os.symlink(program("scd-calibrate"), self.path("bin/scd-calibrate"))
        subprocess.run([program("write_tiny_pair"), self.folder, "127.0.0.1:1"], check=True)
        shutil.rmtree(self.path("bundle"))
        self.write_config()

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write_config(self, num_prefixes=8):
        text = CALIBRATE.replace("MODELS", self.path("models")).replace("MODEL", self.path("model"))
        text = text.replace("PREFIXES", str(num_prefixes)).replace("SEEDS", os.path.join(ROOT, "configs/seed_prompts.txt"))
        with open(self.path("calibrate.yaml"), "w", encoding="utf-8") as file:
            file.write(text)

    def environment(self, **more):
        return {**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"], "SCD_MODELS_DIR": self.path("models"),
                "SCD_LOCAL_DIR": self.path("local"), "SCD_SHARE_DIR": self.path("share"), "SCD_GET_MODELS": "no",
                "SCD_CALIBRATE_CONFIG": self.path("calibrate.yaml"), **more}

    def init(self, *arguments, **environment):
        done = subprocess.run([INIT, *arguments], env=self.environment(**environment), capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def state(self):
        """-> {path in the volume: (time, digest)}"""
        found = {}
        for folder, _, files in os.walk(self.path("models")):
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.path("models"))] = (os.stat(path).st_mtime_ns,
                                                                         hashlib.sha256(file.read()).hexdigest())
        return found

    def test_fits_once(self):
        status, log = self.init()
        self.assertEqual(status, 0, log)
        self.assertRegex(log, r"init: bundle: fitting[^\n]*\n(.*\n)+.*bundle [0-9a-f]{32}")
        first = self.state()
        self.assertIn("bundle/manifest.json", first)
        self.assertEqual(first["bundle.calibrate.yaml"][1], hashlib.sha256(read(self.path("calibrate.yaml")).encode()).hexdigest())
        self.assertFalse(os.path.exists(self.path("models/.tmp")))

        status, log = self.init()
        self.assertEqual((status, log), (0, "init: base model: your own, from the local folder\ninit: bundle: is there\ninit: done\n"))
        self.assertEqual(self.state(), first)

        self.write_config(num_prefixes=9)
        status, log = self.init()
        self.assertEqual(status, 0, log)
        self.assertIn("calibrate.yaml has changed", log)
        self.assertEqual(self.state(), first)
        status, log = self.init("--refit")
        self.assertEqual(status, 0, log)
        self.assertNotEqual(self.state()["bundle/manifest.json"][1], first["bundle/manifest.json"][1])
        self.assertNotIn("has changed", self.init()[1])

    def test_takes_the_base_model_from_the_local_folder(self):
        if not os.path.exists(BASE):
            self.skipTest("the base model is not there: run models/get_models.sh")
        os.makedirs(self.path("models/bundle"))
        with open(self.path("models/bundle/manifest.json"), "w", encoding="utf-8"):
            pass  # that there is one is enough for init
        os.symlink(BASE, self.path("local", MODEL))
        status, log = self.init(SCD_GET_MODELS="yes")
        self.assertEqual(status, 0, log)
        self.assertIn("from the local folder", log)
        self.assertEqual(os.path.getsize(self.path("models/base", MODEL)), os.path.getsize(BASE))
        before = self.state()
        self.assertIn(f"{MODEL} is there", self.init(SCD_GET_MODELS="yes")[1])
        self.assertEqual(self.state(), before)

    def test_faults_are_told(self):
        with open(self.path("local", MODEL), "wb") as file:
            file.write(b"something else")
        status, log = self.init(SCD_GET_MODELS="yes")
        self.assertEqual(status, 1)
        self.assertIn("not the expected file", log)
        self.assertIn("SCD_LOCAL_MODELS", log)
        for arguments, environment, words in [
                ([], {"SCD_GET_MODELS": "maybe"}, "expected yes or no"),
                (["--force"], {}, "unknown argument '--force'"),
                ([], {"SCD_CALIBRATE_CONFIG": self.path("none.yaml")}, "none.yaml"),
                ([], {"SCD_MODELS_DIR": "/proc/self"}, "may not write")]:
            status, log = self.init(*arguments, **environment)
            self.assertEqual(status, 1, log)
            self.assertIn(words, log)
        self.assertEqual(self.state(), {})

    def test_a_lack_of_memory_is_told(self):
        os.remove(self.path("bin/scd-calibrate"))
        with open(self.path("bin/scd-calibrate"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nkill -9 $$\n")
        os.chmod(self.path("bin/scd-calibrate"), 0o755)
        status, log = self.init()
        self.assertEqual(status, 1, log)
        self.assertIn("SCD_INIT_MEMORY", log)

    def test_a_stop_reaches_the_program(self):
        self.write_config(num_prefixes=20000)
        process = Process([INIT], self.path("log"), env=self.environment())
        self.addCleanup(process.close, signal.SIGKILL)
        process.wait_for("fitting")
        process.wait_for(r"self_sample|prefixes|corpus")
        process.close(signal.SIGTERM)
        self.assertRegex(process.log(), "stopped; what was accumulated is in .*\n.*the next start goes on from there")
        self.assertEqual(process.process.returncode, 1)
        self.assertFalse(re.search(r"Killed", process.log()))


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit(77)
    unittest.main()
