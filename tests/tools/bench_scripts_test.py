#!/usr/bin/env python3
"""bench/compare_llama_cpp.sh and bench/ttft.sh against stand-ins of the programs that they measure."""
import json
import os
import stat
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Twice as fast at every turn but the second, which is an outlier; three numbers of decode for every batch.
OURS = r'''#!/usr/bin/env python3
import json, os, sys
argument = lambda name: sys.argv[sys.argv.index(name) + 1]
with open(os.environ["CALLS"], "a") as calls: calls.write(" ".join(["ours"] + sys.argv[1:]) + "\n")
turn = sum(line.startswith("ours") for line in open(os.environ["CALLS"]))
rate = 9000.0 if turn == 3 else 200.0
def until_option(name):
    out = []
    for value in sys.argv[sys.argv.index(name) + 1:]:
        if value.startswith("-"): break
        out.append(int(value))
    return out
print(json.dumps({"backend": "fake",
    "prefill": [{"tokens": n, "tokens_per_s": [rate]} for n in until_option("--prefill")],
    "decode": [{"batch": n, "tokens_per_s": [rate], "share_of_read_bandwidth": 0.5} for n in until_option("--decode")]}))
'''
# Stands for a Python with every package: answers "-c import ...", and runs the peers' scripts without them.
PEER = r'''#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "-c": sys.exit(0)
script = os.path.basename(sys.argv[1])
with open(os.environ["CALLS"], "a") as calls: calls.write(" ".join([script] + sys.argv[2:]) + "\n")
if script == "make_q8_0.py":
    open(sys.argv[3], "w").close()
elif script == "llama_cpp_speed.py":
    print(json.dumps({"version": "0", "prefill": {"512": [100.0], "2048": [50.0]}, "decode": {"1": [100.0], "16": [400.0]}}))
else:
    print(json.dumps({"version": "0", "prefill": {"bfloat16": {"512": [400.0], "2048": [100.0]},
                                                  "float32": {"512": [800.0], "2048": [200.0]}}}))
'''


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.calls = self.path("calls")
        write_program(self.path("build/bin/transformer_benchmark"), OURS)
        write_program(self.path("python"), PEER)
        open(self.path("model.gguf"), "w", encoding="utf-8").close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_script(self, name, *arguments):
        return subprocess.run([os.path.join(ROOT, "bench", name), "--build", self.path("build"), *arguments],
                              capture_output=True, text=True, env={**os.environ, "CALLS": self.calls}, check=False)

    def compare(self, *arguments):
        return self.run_script("compare_llama_cpp.sh", "--model", self.path("model.gguf"), "--work", self.path("work"),
                               "--llama-python", self.path("python"), "--torch-python", self.path("python"), *arguments)

    def test_ratios_are_those_of_medians_in_turns(self):
        done = self.compare("--turns", "3", "--threads", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        expected = {"prefill_512_ratio": 2.0, "prefill_2048_ratio": 4.0, "decode_b1_4bit_ratio": 2.0,
                    "decode_b1_8bit_ratio": 2.0, "decode_b16_ratio": 0.5, "decode_b16_8bit_ratio": 0.5,
                    "prefill_512_torch_ratio": 0.5, "prefill_2048_torch_ratio": 2.0, "prefill_512_torch_f32_ratio": 0.25,
                    "prefill_2048_torch_f32_ratio": 1.0}
        self.assertEqual({key: document[key] for key in expected}, expected)
        self.assertEqual(document["tokens_per_s"]["ours_4bit"]["prefill"]["512"], {"median": 200.0,
                                                                                  "runs": [200.0, 9000.0, 200.0]})
        self.assertEqual(sorted(document["read_bandwidth_shares"]),
                         [f"model.gguf{kind}, batch {n}" for kind in ("", ".Q8_0.gguf") for n in (1, 16)])
        self.assertEqual(document["threads"], 2)
        self.assertGreater(document["machine"]["cores"], 0)
        with open(self.calls, encoding="utf-8") as file:
            calls = [line.split() for line in file]
        self.assertEqual([call[0] for call in calls],
                         ["make_q8_0.py"] + ["ours", "llama_cpp_speed.py", "ours", "llama_cpp_speed.py", "torch_speed.py"] * 3)
        for call in calls[1:]:
            self.assertEqual(call[call.index("--threads") + 1], "2")
        # Both sides read the same file.
        models = [next(word for word in call if word.endswith(".gguf")) for call in calls[1:5]]
        self.assertEqual([os.path.basename(model) for model in models],
                         ["model.gguf", "model.gguf", "model.gguf.Q8_0.gguf", "model.gguf.Q8_0.gguf"])

    def test_pytorch_may_be_left_out(self):
        document = json.loads(self.compare("--turns", "1", "--no-torch").stdout)
        self.assertNotIn("prefill_512_torch_ratio", document)
        self.assertIn("prefill_512_ratio", document)

    def test_what_is_missing_is_named(self):
        done = self.run_script("compare_llama_cpp.sh", "--model", self.path("no.gguf"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no.gguf", done.stderr)
        done = self.run_script("ttft.sh", "--bundle", self.path("none"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("scd-producer", done.stderr)
        for name in ("compare_llama_cpp.sh", "ttft.sh"):
            self.assertEqual(self.run_script(name, "--what").returncode, 2)
            self.assertIn("Usage: bench/" + name, self.run_script(name, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
