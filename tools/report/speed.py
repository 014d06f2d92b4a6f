#!/usr/bin/env python3
"""The section on speed of docs/RESULTS.md, from what the benchmarks wrote.

Usage: speed.py [--ttft FILE] [--rebuild FILE] [--peers FILE] [--dense FILE --kept FILE]
  --ttft FILE     of bench/ttft.sh
  --rebuild FILE  of translate_benchmark --json
  --peers FILE    of bench/compare_llama_cpp.sh
  --dense FILE, --kept FILE  of scd-eval table, with model.weights f32 and auto

Prints Markdown; a file that is not given leaves its part out.
"""
import argparse
import json

from figures import whole


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ttft_part(found):
    parts = []
    for mode in dict.fromkeys(p["mode"] for p in found["prefixes"]):
        rows = [[whole(p["prefix_tokens"]), whole(p["native_ms"]), whole(p["codes_ready_ms"]),
                 f"{p['native_over_codes_ready']:.1f}", whole(p["rebuild_ms"]), whole(p["cold_ms"]),
                 whole(p["producer_prefill_ms"]), f"{p['cold_over_bare']:.3f}"]
                for p in found["prefixes"] if p["mode"] == mode]
        parts.append(f"Mode {mode}:\n\n" + table(
            ["prefix", "native ms", "codes ready ms", "native / ready", "rebuild ms", "cold ms", "bare prefill ms",
             "cold / bare"], rows))
    intro = (f"### Time to first token\n\n`bench/ttft.sh`, through both daemons on loopback, native_head {found['native_head']}, "
             f"native_tail {found['native_tail']}, medians of {found['repeats']}. Native and codes ready: {found['threads']} "
             "threads; codes ready comes from the producer's store, nothing from the consumer's own pages. Cold: producer and "
             "consumer have one core each; *bare* is the producer's prefill on that core without codes, network or consumer, "
             "and *cold / bare* counts one decode step on top of it.")
    parts.insert(0, intro)
    if "shared_prefix" in found:
        s = found["shared_prefix"]
        t = s["prompt_tokens"]
        parts.append(
            f"{s['clients']} clients asked different questions about one prefix of {whole(s['prefix_tokens'])} tokens at "
            f"once: of {whole(t['all'])} prompt tokens the producer prefilled {whole(s['producer_prefilled_tokens'])}, "
            f"{whole(t['transferred'])} came as codes, {whole(t['cached'])} from the consumer's cache, and the consumer "
            f"computed {whole(t['computed'])}.")
    return "\n\n".join(parts)


def rebuild_part(found):
    rows = [[whole(p["tokens"]), whole(p["native_ms"]), f"{p['reuse_ms']:.1f}", f"{p['native_over_reuse']:.0f}",
             f"{100 * p['reuse_of_peak']:.0f} %", f"{p['patch_ms']:.1f}", f"{p['native_over_patch']:.1f}",
             f"{100 * p['patch_of_peak']:.0f} %"] for p in found]
    return ("### Rebuilding from codes in memory\n\n`translate_benchmark`: the same threads, in turns, medians; *of peak* is the "
            "share of the speed that a plain f32 product reaches in that run for these shapes.\n\n" +
            table(["prefix", "native ms", "Reuse ms", "native / Reuse", "of peak", "with 6 Patch layers ms", "native / it",
                   "of peak"], rows))


def peers_part(found):
    rate = found["tokens_per_s"]

    def median(side, what, size):
        entry = rate.get(side, {}).get(what, {}).get(str(size))
        return "-" if entry is None else whole(entry["median"])

    def row(name, what, size, sides, ratio_keys):
        ratios = [f"{found[key]:.2f}" if key in found else "-" for key in ratio_keys]
        return [name, *(median(side, what, size) for side in sides), " / ".join(ratios)]

    rows = [row(f"prefill of {n:,}", "prefill", n, ["ours_4bit", "llama_cpp_4bit", "torch_float32"],
                [f"prefill_{n}_ratio", f"prefill_{n}_torch_f32_ratio", f"prefill_{n}_torch_ratio"])
            for n in (512, 2048)]
    rows += [row(f"decode, {bits} bits, {batch} at a time", "decode", batch,
                 [f"ours_{bits}bit", f"llama_cpp_{bits}bit", "torch_float32"], [key])
             for bits, batch, key in ((4, 1, "decode_b1_4bit_ratio"), (8, 1, "decode_b1_8bit_ratio"),
                                      (4, 16, "decode_b16_ratio"), (8, 16, "decode_b16_8bit_ratio"))]
    machine = found["machine"]
    return (f"### Beside llama.cpp and PyTorch\n\n`bench/compare_llama_cpp.sh`, {found['turns']} turns, medians, "
            f"{found['threads']} threads on {machine['cpu']} ({', '.join(machine['instruction_sets'])}), tokens a second. llama.cpp "
            f"{found['versions']['llama_cpp_4bit']} reads the same file in the same format; PyTorch "
            f"{found['versions']['torch']} has the weights in f32 (the last ratio is against bf16, which is slow on a CPU "
            "without instructions for it).\n\n" +
            table(["", "ours", "llama.cpp", "PyTorch f32", "ours / llama.cpp (/ PyTorch f32 / PyTorch bf16)"], rows))


def quality_part(dense, kept):
    def rows(found):
        return {(m["mode"], m["native_tail"]): m for m in found["modes"] if m["mode"] == "local" or m["native_tail"]}

    dense_rows, kept_rows = rows(dense), rows(kept)
    shared = [key for key in kept_rows if key in dense_rows]
    figures = [("PPL", "ppl", "{:.2f}"), ("KL", "kl", "{:.4f}"), ("KL answer", "kl_answer", "{:.3f}"), ("F1", "f1", "{:.3f}")]
    return ("### With weights as the daemons keep them\n\nThe rows above are of models in f32. By default "
            "(`model.weights: auto`) a quantised file keeps its blocks and few rows at a time, native positions and decoding "
            "among them, are rounded to 8 bits. Each cell: f32, then that; KL is against the native prefill of the same kind.\n\n" +
            table([""] + [name for name, _, _ in figures],
                  [[key[0] if key[1] == 0 else f"{key[0]}, tail {key[1]}"] +
                   [f"{form.format(dense_rows[key][field])}, {form.format(kept_rows[key][field])}" for _, field, form in figures]
                   for key in shared]))


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.strip())
    parts = {"ttft": ttft_part, "rebuild": rebuild_part, "peers": peers_part}
    for name in [*parts, "dense", "kept"]:
        parser.add_argument(f"--{name}")
    given = vars(parser.parse_args())
    sections = [part(load(given[name])) for name, part in parts.items() if given[name]]
    if given["dense"] and given["kept"]:
        sections.append(quality_part(load(given["dense"]), load(given["kept"])))
    if sections:
        print("\n\n".join(["## Speed of the runtime"] + sections))


if __name__ == "__main__":
    main()
