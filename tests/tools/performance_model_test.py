"""The models of docs/performance-model.md and docs/scaling.md: the pages are what the scripts write, the formulas say what was
measured on a CPU, and what a GPU measured gets into its cells."""
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "report"))

import performance_formulas as f  # noqa: E402
import performance_model as model  # noqa: E402
import scaling_model as scaling  # noqa: E402

RESULTS = (ROOT / "docs" / "RESULTS.md").read_text()


def run(script, *arguments):
    return subprocess.run([sys.executable, "-B", ROOT / "tools" / "report" / script, *arguments], capture_output=True, text=True)


class Pages(unittest.TestCase):
    def test_are_what_the_scripts_write(self):
        for script in ("performance_model.py", "scaling_model.py"):
            done = run(script, "--check")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_changed_figure_is_found_and_mended(self):
        page = (ROOT / "docs" / "performance-model.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            changed = pathlib.Path(folder) / "page.md"
            changed.write_text(page.replace("| Reuse | 2,432 |", "| Reuse | 2,433 |"))
            self.assertNotEqual(changed.read_text(), page)
            self.assertEqual(run("performance_model.py", "--page", changed, "--check").returncode, 1)
            self.assertEqual(run("performance_model.py", "--page", changed).returncode, 0)
            self.assertEqual(changed.read_text(), page)

    def test_a_page_without_a_place_is_an_error(self):
        with self.assertRaisesRegex(KeyError, "no place for paper"):
            model.fill("nothing", {"paper": "table"})

    def test_say_that_no_gpu_has_been_had(self):
        self.assertIn("no GPU has been had", (ROOT / "docs" / "performance-model.md").read_text())


class Formulas(unittest.TestCase):
    def test_predict_the_times_of_a_cpu(self):
        rows = model.cpu_check(RESULTS)
        self.assertEqual(len(rows), 6)
        for what, tokens, predicted, measured in rows:
            self.assertLess(measured / predicted, 1.25, (what, tokens))
            self.assertGreater(measured / predicted, 0.8, (what, tokens))

    def test_count_products(self):
        pair = model.MISTRAL
        flops = {way: f.flops(f.rebuild_kernels(pair, way, 1, model.H200)) for way in model.WAYS}
        self.assertEqual(flops["reuse"], 2 * (512 + 704) * 1024)
        self.assertEqual(flops["patch"], 2 * (3072 * 1024 + (3072 + 1024) * 2048))
        self.assertEqual(flops["fused"], 2 * 1024 * 2048)
        self.assertEqual(flops["raw"], 0)
        self.assertEqual(f.flops(f.encode_kernels(pair, "patch", 1, model.H200)), 2 * 4096 * 3072)
        weights, attention = f.prefill_flops(pair, 100)
        self.assertEqual(weights, 2.0 * 100 * 32 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336))
        self.assertEqual(attention, 2.0 * 32 * 4096 * 100 * 100)

    def test_payloads_are_the_papers(self):
        pair = model.MISTRAL
        raw = f.over_layers(pair, "raw", lambda way: f.code_bytes(pair, way))
        self.assertAlmostEqual(f.over_layers(pair, "reuse", lambda way: f.code_bytes(pair, way)) / raw, 69.02 / 115.02, 1)
        self.assertAlmostEqual(f.over_layers(pair, "scd", lambda way: f.code_bytes(pair, way)) / raw, 87.31 / 115.02, 1)
        self.assertAlmostEqual(115.02e6 / raw, model.PAPER_TOKENS, 0)

    def test_small_products_leave_multiprocessors_idle(self):
        self.assertEqual(f.occupied(128, 128, model.H200), 1 / 132)
        self.assertEqual(f.occupied(128 * 132, 128, model.H200), 1.0)
        self.assertEqual(f.occupied(128 * 133, 128, model.H200), 133 / 264)
        self.assertEqual(f.occupied(1, 1, model.CPU), 1.0)

    def test_a_kernel_takes_what_binds_it(self):
        device = dataclasses.replace(model.H200, product_flops=100.0, product_share=1.0, memory_bytes=10.0, memory_share=1.0,
                                     multiprocessors=0, kernel_seconds=0.5)
        self.assertEqual(f.Kernel(flops=200, moved=10).seconds(device), 2)
        self.assertEqual(f.Kernel(flops=200, moved=40).seconds(device), 4)
        self.assertEqual(f.Kernel(flops=2, moved=1).seconds(device), 0.5)

    def test_a_slow_link_is_all_that_counts(self):
        pair = model.MISTRAL
        slow = f.first_token_seconds(pair, "raw", 1000, model.H200, model.HOST, 1e6, cold=False)
        wire = 32 * 4096 * (1000 - pair.native_positions) / 1e6
        self.assertAlmostEqual(slow / wire, 1, 2)


DOCUMENT = {"shape": "7b", "device": "cuda: a GPU", "peaks": {"product_tflop_per_s": 600},
            "prefill": [{"tokens": 512, "ms": 12.34}],
            "transfer": [{"form": "scd", "tokens": 512, "rebuild_ms": 3.21,
                          "links": [{"gbit_per_s": 100, "computed_ready_overlapped_ms": 9.87}]}]}


class MeasuredFigures(unittest.TestCase):
    def test_get_into_their_cells(self):
        made = model.sections(model.Measured(DOCUMENT), RESULTS)
        line = next(row for row in made["rebuild-7b"].splitlines() if row.startswith("| 512 |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        self.assertEqual((cells[2], cells[4], cells[6]), ("12.3", "–", "3.21"))
        self.assertIn("| 9.87 |", next(row for row in made["first-token-7b"].splitlines() if row.startswith("| 100 | 512 |")))
        self.assertNotIn("9.87", made["first-token-32b"])
        self.assertNotIn("no GPU", "".join(made.values()))
        self.assertIn("a GPU", made["device"])

    def test_of_another_shape_are_refused(self):
        with self.assertRaisesRegex(ValueError, "tiny"):
            model.Measured({**DOCUMENT, "shape": "tiny"})


class Shards(unittest.TestCase):
    def test_the_least_repetition_counts(self):
        rows = [{"name": "Shard/reuse/ranks/2/process_time/real_time", "cpu_time": t, "time_unit": "us"} for t in (900, 700, 800)]
        rows.append({"name": "Shard/reuse/ranks/2/process_time/real_time_mean", "run_type": "aggregate", "cpu_time": 1,
                     "time_unit": "us"})
        times = scaling.shard_times({"benchmarks": rows})
        self.assertEqual(list(times), [("reuse", 2)])
        self.assertAlmostEqual(times["reuse", 2], 0.7)

    def test_decoders_are_cut_by_head_but_for_the_aligners_first_map(self):
        pair = model.MISTRAL
        for way in ("reuse", "fused"):
            self.assertEqual(scaling.decoder_numbers(pair, way, 8) * 8, scaling.decoder_numbers(pair, way, 1))
        self.assertEqual(scaling.decoder_numbers(pair, "patch", 8), 3072 * 1024 + (3072 + 1024) * 256)


if __name__ == "__main__":
    unittest.main()
