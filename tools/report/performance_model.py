#!/usr/bin/env python3
"""Writes the tables of docs/performance-model.md between their markers.

Usage: performance_model.py [--page FILE] [--measured FILE.json] [--check]
  --page FILE      default: docs/performance-model.md of this tree
  --measured FILE  of gpu_benchmark --json on the shape 7b: fills the columns "measured"
  --check          writes nothing; exit code 1 where the page is not what would be written
"""
import argparse
import dataclasses
import json
import pathlib
import re
import sys

import performance_formulas as f
from figures import MISSING, significant, whole
from speed import table

MISTRAL = f.Pair("7B pair (Mistral-7B)", layers=32, hidden=4096, intermediate=14336, heads=32, kv_heads=8, head_dim=128,
                 vocabulary=32000, rank_k=512, rank_v=704, rank_h=3072, mlp=1024, patch_layers=6, fused_rank=1024,
                 fused_share=0.10)
QWEN = f.Pair("32B pair (Qwen2.5-32B)", layers=64, hidden=5120, intermediate=27648, heads=40, kv_heads=8, head_dim=128,
              vocabulary=152064, rank_k=512, rank_v=704, rank_h=3072, mlp=1024, patch_layers=12, fused_rank=1024,
              fused_share=0.10)
SMOLLM = f.Pair("shipped pair", layers=30, hidden=576, intermediate=1536, heads=9, kv_heads=3, head_dim=64, vocabulary=49152,
                rank_k=96, rank_v=128, rank_h=576, mlp=1024, patch_layers=6, fused_rank=1045,
                fused_share=0.055)

# Peaks of NVIDIA's data sheet (SXM, dense); the shares are assumptions, named on the page.
H200 = f.Device("H200", product_flops=989e12, product_share=0.65, attention_share=0.30, memory_bytes=4.8e12,
                memory_share=0.80, upload_bytes=50e9, multiprocessors=132, kernel_seconds=4e-6, bytes_per_number=f.BF16)
# Two AVX2 cores: docs/measurements/products.md.
CPU = f.Device("2 cores", product_flops=2 * 96e9, product_share=0.95, attention_share=0.95, memory_bytes=2 * 14.5e9,
               memory_share=1.0, upload_bytes=0, multiprocessors=0, kernel_seconds=0.0, bytes_per_number=f.F32)

# 16 cores at the measured rates of one (kernels_benchmark, EncodeNumbers/entropy and DecodeNumbers/entropy, 512 tokens).
HOST = f.Host(cores=16, encode_numbers=414e6, decode_numbers=385e6)
ONE_CORE = dataclasses.replace(HOST, cores=1)

PREFIXES = [512, 1024, 2048, 4096, 8192, 16384]
LINKS = [10, 100, 200]  # Gbit/s
LINK_SHARE = 0.94  # of a link's rate that payloads get
FRAME = 256  # tokens of a code
PAPER_TOKENS = 878  # 115.02 MB of raw KV at 131,072 bytes a token
NO_GPU = "no GPU has been had"
WAYS = {"reuse": "Reuse", "patch": "Patch", "fused": "Fused", "raw": "raw KV"}


def ms(seconds):
    return significant(1e3 * seconds)


class Measured:
    """What gpu_benchmark wrote; nothing without a file."""

    def __init__(self, document=None):
        document = document or {}
        if document and document.get("shape") != "7b":
            raise ValueError("--measured: the document is of shape %s, not 7b" % document.get("shape"))
        self.prefill = {row["tokens"]: row for row in document.get("prefill", [])}
        self.transfers = {(row["form"], row["tokens"]): row for row in document.get("transfer", [])}
        self.device = document.get("device")
        self.peaks = document.get("peaks", {})

    def cell(self, pair, row, read):
        if self.device is None:
            return NO_GPU
        return MISSING if pair is not MISTRAL or row is None else significant(read(row))

    def prefill_cell(self, pair, tokens):
        return self.cell(pair, self.prefill.get(tokens), lambda row: row["ms"])

    def rebuild_cell(self, pair, mode, tokens):
        return self.cell(pair, self.transfers.get((mode, tokens)), lambda row: row["rebuild_ms"])

    def ready_cell(self, pair, mode, tokens, link):
        row = self.transfers.get((mode, tokens))
        found = [each for each in (row or {}).get("links", []) if each["gbit_per_s"] == link]
        return self.cell(pair, found[0] if found else None, lambda each: each["computed_ready_overlapped_ms"])


def link_bytes(gbit_s):
    return gbit_s * 1e9 / 8 * LINK_SHARE


def costs(pair):
    rows = []
    for way, name in WAYS.items():
        rebuild = f.rebuild_kernels(pair, way, FRAME, H200)
        flops, moved = f.flops(rebuild) / FRAME, f.moved(rebuild) / FRAME
        rows.append([name, whole(f.code_bytes(pair, way)), f"{100 * f.code_bytes(pair, way) / pair.raw_bytes:.0f} %",
                     significant(1e-6 * f.flops(f.encode_kernels(pair, way, FRAME, H200)) / FRAME),
                     significant(1e-6 * flops), whole(moved), significant(flops / moved)])
    native = 2.0 * pair.layer_weights
    rows.append(["native prefill", MISSING, MISSING, MISSING, significant(1e-6 * native), MISSING, MISSING])
    return table(["layer", "code bytes", "of raw", "encode MFLOP", "rebuild MFLOP", "rebuild bytes of device memory",
                  "rebuild FLOP/byte"], rows)


def rebuild(pair, measured):
    rows = []
    for tokens in PREFIXES:
        row = [whole(tokens), ms(f.prefill_seconds(pair, tokens, H200)), measured.prefill_cell(pair, tokens)]
        for mode in ("reuse", "scd", "fused"):
            row += [ms(f.rebuild_seconds(pair, mode, tokens, H200, FRAME)), measured.rebuild_cell(pair, mode, tokens)]
        row += [ms(f.rebuild_seconds(pair, "raw", tokens, H200, FRAME)), ms(f.encode_seconds(pair, "fused", tokens, H200))]
        rows.append(row)
    return table(["prefix", "native prefill ms", "measured", "Reuse ms", "measured", "Reuse and Patch ms", "measured", "Fused ms",
                  "measured", "raw ms", "encode Fused ms"], rows)


def codec():
    rows = []
    for tokens in PREFIXES:
        row = [whole(tokens)]
        for pair in (MISTRAL, QWEN):
            for host in (ONE_CORE, HOST):
                row += [ms(f.codec_seconds(pair, "fused", tokens, host)), ms(f.codec_seconds(pair, "fused", tokens, host, True))]
        rows.append(row)
    sides = [f"{pair}, {cores} core{'s' if cores > 1 else ''}: {what}" for pair in ("7B", "32B") for cores in (1, HOST.cores)
             for what in ("decode", "encode")]
    return table(["prefix", *sides], rows)


def first_token(pair, measured):
    rows = []
    for link in LINKS:
        for tokens in PREFIXES:
            native = f.prefill_seconds(pair, tokens, H200) + f.rest_seconds(pair, tokens, H200)
            row = [f"{link}", whole(tokens), ms(native)]
            for mode, host in (("raw", HOST), ("scd", HOST), ("fused", ONE_CORE), ("fused", HOST)):
                ready = f.first_token_seconds(pair, mode, tokens, H200, host, link_bytes(link), cold=False)
                row += [ms(ready), f"{native / ready:.1f}"]
            row.append(measured.ready_cell(pair, "scd", tokens, link))
            row.append(ms(f.first_token_seconds(pair, "fused", tokens, H200, HOST, link_bytes(link), cold=True)))
            rows.append(row)
    return table(["Gbit/s", "prefix", "native ms", "raw ms", "×", "Reuse and Patch ms", "×", "Fused, 1 core, ms", "×",
                  "Fused, 16 cores, ms", "×", "Reuse and Patch, measured", "Fused cold, 16 cores, ms"], rows)


def paper():
    rows = []
    for pair, native_ms, scd_ms, ratio in ((MISTRAL, "331.9", "125.2", "2.65"), (QWEN, MISSING, MISSING, "2.07")):
        native = f.prefill_seconds(pair, PAPER_TOKENS, H200) + f.rest_seconds(pair, PAPER_TOKENS, H200)
        scd = f.first_token_seconds(pair, "scd", PAPER_TOKENS, H200, HOST, link_bytes(200), cold=False)
        bound = f.over_layers(pair, "scd", lambda way: f.code_bytes(pair, way)) * PAPER_TOKENS / link_bytes(200)
        rows.append([pair.name, native_ms, scd_ms, ratio, ms(native), ms(scd), f"{native / scd:.2f}", ms(bound)])
    return table(["pair", "paper: native ms", "paper: SCD ms", "paper: ratio", "H200: native ms", "H200: SCD ms", "H200: ratio",
                  "of it the wire at least, ms"], rows)


def results_rows(text):
    """Of docs/RESULTS.md, "Rebuilding from codes in memory": tokens, and measured ms of native, Reuse and Patch."""
    part = text.split("### Rebuilding from codes in memory", 1)[1].split("\n### ", 1)[0]
    rows = []
    for line in part.splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        if re.fullmatch(r"\d+", cells[0]):
            rows.append((int(cells[0]), float(cells[1]), float(cells[2]), float(cells[5])))
    return rows


def cpu_check(results):
    """Rows of (what, tokens, predicted seconds, measured seconds)."""
    found = []
    for tokens, native, reuse, patch in results_rows(results):
        found.append(("native prefill", tokens, f.prefill_seconds(SMOLLM, tokens, CPU), 1e-3 * native))
        found.append(("rebuild, Reuse", tokens, f.rebuild_seconds(SMOLLM, "reuse", tokens, CPU, FRAME), 1e-3 * reuse))
        found.append(("rebuild, Reuse and 6 Patch", tokens, f.rebuild_seconds(SMOLLM, "scd", tokens, CPU, FRAME), 1e-3 * patch))
    return found


def cpu(results):
    return table(["what", "prefix", "predicted ms", "measured ms", "measured / predicted"],
                 [[what, whole(tokens), ms(predicted), ms(measured), f"{measured / predicted:.2f}"]
                  for what, tokens, predicted, measured in cpu_check(results)])


def calibration():
    pair, tokens, group = MISTRAL, 102_000, 5
    f32 = 67e12 * 0.65  # products without tensor cores
    host = 10e9  # closed forms, a core: docs/own_pair.md
    weights = 2 * 2.0 * pair.layers * pair.layer_weights * tokens
    kv = 2 * pair.layers * 3 * 2.0 * pair.d_kv ** 2 * tokens
    rows = [["traces: both models' prefills", significant(1e-12 * weights),
             significant(weights / (H200.product_flops * H200.product_share)), "device"],
            ["sums of K and V of all layers", significant(1e-12 * kv), significant(kv / f32), "device"],
            ["Reuse: closed forms of all layers", significant(1e-12 * 144 * pair.layers * pair.d_kv ** 3),
             significant(144 * pair.layers * pair.d_kv ** 3 / host), "host, core-seconds"]]
    for g in (1, group):
        a, b, groups = g * pair.hidden, g * 2 * pair.d_kv, pair.layers / g
        sums = groups * 2.0 * (a * a + a * b + b * b) * tokens
        closed = groups * (a ** 3 / 3 + 2.0 * a * a * b + 9.0 * b ** 3)
        rows.append([f"Fused, groups of {g}: sums", significant(1e-12 * sums), significant(sums / f32), "device"])
        rows.append([f"Fused, groups of {g}: Cholesky, solve and eigenvectors", significant(1e-12 * closed),
                     significant(closed / host), "host, core-seconds"])
    one = 9.0 * pair.hidden ** 3
    rows.append(["Patch: eigenvectors of one candidate (4096 wide)", significant(1e-12 * one), significant(one / host),
                 "host, core-seconds"])
    return table(["stage", "10^12 operations", "seconds", "where"], rows)


def sections(measured, results):
    both = {"7b": MISTRAL, "32b": QWEN}
    made = {f"costs-{key}": costs(pair) for key, pair in both.items()}
    made.update({f"rebuild-{key}": rebuild(pair, measured) for key, pair in both.items()})
    made.update({f"first-token-{key}": first_token(pair, measured) for key, pair in both.items()})
    made.update({"paper": paper(), "cpu": cpu(results), "codec": codec(), "calibration": calibration()})
    made["device"] = ("Measured: " + NO_GPU + "." if measured.device is None else
                      "Measured on: " + measured.device + "; peaks " + json.dumps(measured.peaks, sort_keys=True) + ".")
    return made


def fill(text, made):
    """The page with what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced. KeyError names what has no place."""
    for name, body in made.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.S)
        if not pattern.search(text):
            raise KeyError(f"the page has no place for {name}")
        text = pattern.sub(lambda match: match[1] + made[name] + "\n" + match[2], text)
    return text


def write_or_check(path, text, check):
    if check:
        if path.read_text() == text:
            return 0
        print(f"{path}: is not what this script writes; run it without --check", file=sys.stderr)
        return 1
    path.write_text(text)
    return 0


def main():
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=pathlib.Path, default=docs / "performance-model.md")
    parser.add_argument("--measured", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    measured = Measured(json.loads(options.measured.read_text()) if options.measured else None)
    made = sections(measured, (docs / "RESULTS.md").read_text())
    return write_or_check(options.page, fill(options.page.read_text(), made), options.check)


if __name__ == "__main__":
    sys.exit(main())
