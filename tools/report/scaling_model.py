#!/usr/bin/env python3
"""Writes the tables of docs/scaling.md between their markers.

Usage: scaling_model.py [--page FILE] [--shards FILE.json] [--check]
  --page FILE    default: docs/scaling.md of this tree
  --shards FILE  of kernels_benchmark --benchmark_filter=Shard --benchmark_out; default: docs/measurements/shards.json
  --check        writes nothing; exit code 1 where the page is not what would be written
"""
import argparse
import dataclasses
import json
import pathlib
import re
import sys

import performance_formulas as f
from figures import significant, whole
from performance_model import H200, MISTRAL, WAYS, fill, write_or_check
from speed import table

RANKS = [1, 2, 4, 8]
FRAME = 256  # tokens of a frame, as the benchmark has it
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0}


def shard_times(document):
    """(way, ranks) -> ms of one layer and frame on one thread: the least of the repetitions."""
    found = {}
    for row in document["benchmarks"]:
        match = re.match(r"Shard/(\w+)/ranks/(\d+)/", row["name"])
        if match and row.get("run_type", "iteration") == "iteration":
            key = (match[1], int(match[2]))
            value = row["cpu_time"] * MILLISECONDS[row["time_unit"]]
            found[key] = min(value, found.get(key, value))
    return found


def decoder_numbers(pair, way, ranks):
    """Of one layer's decoders on one rank."""
    d = pair.d_kv // ranks
    return {"reuse": (pair.rank_k + pair.rank_v) * d, "fused": 2 * pair.fused_rank * d, "raw": 0,
            "patch": pair.rank_h * pair.mlp + (pair.rank_h + pair.mlp) * 2 * d}[way]


def payload(pair):
    rows = []
    for ranks in RANKS:
        row = [whole(ranks), whole(pair.layers * pair.raw_bytes / ranks)]
        for mode in ("raw", "scd", "fused"):
            one = f.over_layers(pair, mode, lambda way: f.code_bytes(pair, way))
            row.append(whole(one / ranks if mode == "raw" else one))
        for mode in ("scd", "fused"):
            row.append(whole(2 * f.over_layers(pair, mode, lambda way: decoder_numbers(pair, way, ranks)) / 2 ** 20))
        rows.append(row)
    return table(["ranks", "KV pages a rank, bytes/token", "raw KV to a rank", "codes to a rank, Reuse and Patch",
                  "codes to a rank, Fused", "decoders a rank, Reuse and Patch, MiB", "decoders a rank, Fused, MiB"], rows)


def rebuild(pair, times):
    rows = []
    for way in ("reuse", "fused", "patch"):
        for ranks in RANKS:
            flops = 2.0 * FRAME * decoder_numbers(pair, way, ranks)
            value = times[(way, ranks)]
            share = decoder_numbers(pair, way, ranks) / decoder_numbers(pair, way, 1)
            rows.append([WAYS[way], whole(ranks), significant(1e-9 * flops), significant(value),
                         f"{times[(way, 1)] / value:.2f}", f"{1 / share:.2f}", significant(1e-6 * flops / value)])
    return table(["layer", "ranks", "GFLOP a rank", "ms a rank, measured", "faster than whole", "by its operations",
                  "GFLOP/s"], rows)


def gpu(pair):
    rows = []
    for ranks in RANKS:
        rank = dataclasses.replace(pair, kv_heads=pair.kv_heads // ranks)
        row = [whole(ranks)]
        for way in ("reuse", "patch"):
            for frame in (FRAME, 4096):
                kernels = f.rebuild_kernels(rank, way, frame, H200)
                row.append(significant(1e6 * sum(k.seconds(H200) for k in kernels) * 4096 / frame))
        rows.append(row)
    return table(["ranks", "Reuse, frames of 256, us", "one frame", "Patch, frames of 256, us", "one frame"], rows)


def main():
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=pathlib.Path, default=docs / "scaling.md")
    parser.add_argument("--shards", type=pathlib.Path, default=docs / "measurements" / "shards.json")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    times = shard_times(json.loads(options.shards.read_text()))
    made = {"payload": payload(MISTRAL), "rebuild": rebuild(MISTRAL, times), "gpu": gpu(MISTRAL)}
    return write_or_check(options.page, fill(options.page.read_text(), made), options.check)


if __name__ == "__main__":
    sys.exit(main())
