#!/usr/bin/env python3
"""Prints a bundle: for which models it is, what was fitted, how well, and its tensors. Needs nothing but Python.

Run: tools/inspect_bundle.py FOLDER                  the summary
     tools/inspect_bundle.py FOLDER --tensors        every tensor's name, shape and bytes too
     tools/inspect_bundle.py FOLDER --tensor NAME    one tensor's root mean square, smallest and largest value
"""
import argparse
import array
import json
import math
import os
import struct
import sys


def read_header(path):
    """-> {name: {dtype, shape, data_offsets}}, where the data begins"""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        raw = file.read(8)
        if len(raw) < 8:
            sys.exit(f"{path}: too short for a safetensors file")
        length = struct.unpack("<Q", raw)[0]
        if length > size - 8:
            sys.exit(f"{path}: its header claims {length} bytes, the file has {size}")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


def read_values(path, entry, begin):
    first, last = entry["data_offsets"]
    values = array.array("i" if entry["dtype"] == "I32" else "f")
    with open(path, "rb") as file:
        file.seek(begin + first)
        values.frombytes(file.read(last - first))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def table(rows, header):
    widths = [max(len(str(row[i])) for row in [header] + rows) for i in range(len(header))]
    for row in [header] + rows:
        print("  " + "  ".join(str(cell).rjust(width) for cell, width in zip(row, widths)))


def print_summary(manifest):
    print(f"bundle version {manifest['version']}, made by {manifest['created_by']}")
    for side in ("producer", "consumer"):
        print(f"{side}: {manifest[side]['description']}")
        print(f"  model {manifest[side]['digest']}  tokenizer {manifest[side]['tokenizer_digest']}")
    for section in ("shape", "plan", "fitted", "fused", "calibration", "quality"):
        print(f"{section}:")
        for key, value in manifest.get(section, {}).items():
            print(f"  {key}: {value}")
    errors = manifest.get("layer_errors", [])
    if errors:
        print("relative errors of held-out rows, |X_hat - X| / |X - mean|:")
        kinds = {"k": "K", "v": "V", "h": "H", "kv": "K and V fused"}
        table([[i] + [f"{e.get(kind, 0):.4f}" for kind in kinds] for i, e in enumerate(errors)], ["layer", *kinds.values()])
    steps = manifest.get("patch_choice", [])
    if steps:
        print("choice of Patch layers, S_k by S_k:")
        table([[k + 1, s["layer"], f"{s['kl']:.5f}", f"{s['gain']:.5f}", f"{s['gain_per_cost']:.5f}", f"{s['gain_per_layer']:.5f}"]
               for k, s in enumerate(steps)], ["k", "adds", "KL", "gain", "gain/(c0+ck)", "gain/(ck)"])
    rates = manifest.get("rates", {})
    if rates.get("points"):
        print(f"rates of codec entropy, {'fused layers' if manifest['fused']['rank'] else 'the default plan'}, held out:")
        raw = 4 * manifest["shape"]["num_layers"] * manifest["shape"]["num_kv_heads"] * manifest["shape"]["head_dim"]
        table([[f"{p['distortion']:g}", f"{p['bytes_per_token']:.0f}", f"{100 * p['bytes_per_token'] / raw:.1f} %", f"{p['kl']:.5f}",
                "default" if i == rates["default"] else ""]
               for i, p in enumerate(rates["points"])], ["distortion", "bytes/token", "of raw bf16", "KL", ""])
    selective = manifest.get("selective", {})
    if selective.get("groups"):
        print(f"selective recomputation, held out (KL {selective['kl_raw']:.5f} with no layer recomputed):")
        table([[g["first"], g["last"], g["last"] - g["first"] + 1, f"{100 * g['bytes_fraction']:.1f} %", f"{g['kl']:.5f}",
                "default" if selective["default"] == {"first": g["first"], "last": g["last"]} else ""]
               for g in selective["groups"]], ["first", "last", "layers", "bytes/raw", "KL", ""])
    elif selective.get("default"):
        print(f"selective recomputation: layers {selective['default']['first']} to {selective['default']['last']}, not measured")
    else:
        print("selective recomputation: not profiled")


def main():
    parser = argparse.ArgumentParser(description="Prints a bundle of scd-calibrate.")
    parser.add_argument("folder")
    parser.add_argument("--tensors", action="store_true", help="list every tensor")
    parser.add_argument("--tensor", metavar="NAME", help="statistics of one tensor")
    args = parser.parse_args()
    path = os.path.join(args.folder, "tensors.safetensors")
    with open(os.path.join(args.folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    header, begin = read_header(path)
    if args.tensor:
        if args.tensor not in header:
            sys.exit(f"{path}: no tensor {args.tensor}")
        values = read_values(path, header[args.tensor], begin)
        rms = math.sqrt(sum(v * v for v in values) / len(values))
        print(f"{args.tensor} {header[args.tensor]['shape']}: rms {rms:.6g}, smallest {min(values):.6g}, largest {max(values):.6g}")
        return
    print_summary(manifest)
    sizes = {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in header.items()}
    print(f"tensors: {len(sizes)}, {sum(sizes.values()) / 2**20:.1f} MiB")
    if args.tensors:
        table([[name, header[name]["shape"], sizes[name]] for name in sorted(sizes)], ["name", "shape", "bytes"])


if __name__ == "__main__":
    main()
