#!/usr/bin/env python3
"""tools/report/speed.py on small documents of every kind."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SPEED = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools/report/speed.py")

PREFIX = {"prefix_tokens": 2048, "native_ms": 3800.4, "codes_ready_ms": 340.5, "native_over_codes_ready": 11.16,
          "rebuild_ms": 241.4, "cold_ms": 6718.5, "producer_prefill_ms": 6543.6, "cold_over_bare": 1.0246}
TTFT = {"threads": 2, "repeats": 3, "native_head": 1, "native_tail": 16,
        "prefixes": [{"mode": "scd", **PREFIX}, {"mode": "reuse", **PREFIX, "codes_ready_ms": 148.0}]}
SHARED = {"clients": 8, "prefix_tokens": 1500, "producer_prefilled_tokens": 1515,
          "prompt_tokens": {"all": 12256, "cached": 10304, "computed": 438, "transferred": 1514}}
REBUILD = [{"tokens": 512, "native_ms": 667.2, "reuse_ms": 9.66, "native_over_reuse": 69.1, "reuse_of_peak": 0.745,
            "patch_ms": 53.1, "native_over_patch": 12.56, "patch_of_peak": 0.87}]
RUNS = {"median": 250.0, "runs": [240.0, 260.0]}
PEERS = {"threads": 2, "turns": 2, "machine": {"cpu": "A CPU", "instruction_sets": ["avx2"]},
         "versions": {"llama_cpp_4bit": "0.3", "torch": "2.1"}, "decode_b1_4bit_ratio": 1.976,
         "tokens_per_s": {"ours_4bit": {"decode": {"1": RUNS}}, "llama_cpp_4bit": {"decode": {"1": {**RUNS, "median": 126.5}}}}}


def table(kl):
    figures = {"ppl": 17.3, "kl": kl, "kl_answer": 0.2, "f1": 0.6}
    return {"modes": [{"mode": "local", "native_tail": 0, **figures}, {"mode": "scd", "native_tail": 0, **figures},
                      {"mode": "scd", "native_tail": 16, **figures}]}


class Speed(unittest.TestCase):
    def run_with(self, **documents):
        with tempfile.TemporaryDirectory() as folder:
            arguments = []
            for name, document in documents.items():
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(document, file)
                arguments += [f"--{name}", path]
            done = subprocess.run([sys.executable, "-B", SPEED, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_nothing_given_nothing_said(self):
        self.assertEqual(self.run_with(), "")

    def test_time_to_first_token(self):
        text = self.run_with(ttft={**TTFT, "shared_prefix": SHARED})
        self.assertIn("| 2,048 | 3,800 | 340 | 11.2 | 241 | 6,718 | 6,544 | 1.025 |", text)
        self.assertLess(text.index("Mode scd"), text.index("Mode reuse"))
        self.assertIn("the producer prefilled 1,515", text)
        self.assertNotIn("the producer prefilled", self.run_with(ttft=TTFT))

    def test_rebuilding(self):
        self.assertIn("| 512 | 667 | 9.7 | 69 | 74 % | 53.1 | 12.6 | 87 % |", self.run_with(rebuild=REBUILD))

    def test_peers_and_what_was_not_measured(self):
        text = self.run_with(peers=PEERS)
        self.assertIn("| decode, 4 bits, 1 at a time | 250 | 126 | - | 1.98 |", text)
        self.assertIn("| decode, 8 bits, 16 at a time | - | - | - | - |", text)

    def test_rows_of_both_tables_stand_beside_each_other(self):
        text = self.run_with(dense=table(0.0226), kept=table(0.0231))
        self.assertIn("| scd, tail 16 | 17.30, 17.30 | 0.0226, 0.0231 |", text)
        self.assertNotIn("| scd |", text)


if __name__ == "__main__":
    unittest.main()
