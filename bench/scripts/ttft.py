"""The work of bench/ttft.sh, which explains the options."""
import argparse
import json
import os
import signal
import subprocess
import sys

import machine
from daemons import Pair, on_cores

NATIVE_RANGES = ("--native-head", 1, "--native-tail", 16)
SHARED_PREFIX_TOKENS = 1500
SHARED_CLIENTS = 8


def say(text):
    print(f"ttft: {text}", file=sys.stderr, flush=True)


def check(ok, what):
    if not ok:
        raise SystemExit(f"ttft: {what}")


class Prompts:
    """Seeds, so that no two measurements share a prompt but where they are meant to."""

    def __init__(self):
        self._seed = 0

    def next(self):
        self._seed += 1
        return self._seed


def ttft(pair, tokens, seed, repeats, *arguments):
    """-> the level of `repeats` prompts of so many tokens, one after the other"""
    return pair.bench("--concurrency", 1, "--requests", repeats, "--warmup", 1, "--prompt-tokens", tokens, "-n", 1,
                      "--seed", seed, *arguments)


def measure_ready(options, prompts):
    """-> {(mode, tokens): figures}: native prefill and codes in the producer's store, all threads for the consumer"""
    out = {}
    # Each request has to come through the codes: the consumer keeps nothing of the one before.
    with Pair(options, options.threads) as pair:
        for tokens in options.tokens:
            native = ttft(pair, tokens, prompts.next(), options.repeats, "--mode", "local", "--policy", "off", "--no-prefix-cache")
            for mode in options.modes:
                say(f"codes ready: {mode}, {tokens} tokens")
                seed = prompts.next()
                through = ("--mode", mode, "--policy", "require", "--no-prefix-cache", *NATIVE_RANGES)
                ttft(pair, tokens, seed, options.repeats, *through)  # fills the store
                ready = ttft(pair, tokens, seed, options.repeats, *through)
                counts = ready["prompt_tokens"]
                check(counts["cached"] == 0, "the consumer took a prompt from its own cache")
                check(counts["stored"] > 0, f"no codes of {tokens} tokens were in the producer's store")
                out[mode, tokens] = {
                    "native_ms": native["ttft_ms"]["p50"],
                    "codes_ready_ms": ready["ttft_ms"]["p50"],
                    "native_over_codes_ready": native["ttft_ms"]["p50"] / ready["ttft_ms"]["p50"],
                    "codes_ready_tokens": {name: count // options.repeats for name, count in counts.items()},
                    "rebuild_ms": ready["reported_ms"]["rebuild"]["p50"],
                    "native_positions_ms": ready["reported_ms"]["native"]["p50"],
                    "received_bytes": ready["bytes"]["received"] // options.repeats,
                }
    return out


def bare(options, tokens):
    """-> (ms of the producer's bare prefill, ms of one decode step after it), on the producer's core alone"""
    command = [f"{options.bin}/transformer_benchmark", "--model", options.model, "--threads", 1, "--weights", "auto",
               "--math", options.math, "--prefill", tokens, "--decode", 1, "--context", tokens, "--steps", 8, "--repeats",
               options.repeats, "--json", "-"]
    document = json.loads(subprocess.run(on_cores([options.cores[0]], command), stdout=subprocess.PIPE, check=True).stdout)
    return document["prefill"][0]["median_ms"], document["decode"][0]["median_ms"]


def measure_cold(options, prompts):
    """-> {(mode, tokens): figures}: codes made for the request, a core for each daemon"""
    out = {}
    with Pair(options, 1, cores=([options.cores[0]], [options.cores[1]])) as pair:
        for tokens in options.tokens:
            for mode in options.modes:
                say(f"cold: {mode}, {tokens} tokens")
                cold = ttft(pair, tokens, prompts.next(), options.repeats, "--mode", mode, "--policy", "require", "--fresh",
                            *NATIVE_RANGES)
                counts = cold["prompt_tokens"]
                check(counts["cached"] + counts["stored"] == 0, f"a cold prompt of {tokens} tokens was known")
                out[mode, tokens] = {
                    "cold_ms": cold["ttft_ms"]["p50"],
                    "cold_reported_prefill_ms": cold["reported_ms"]["producer_prefill"]["p50"],
                }
    for tokens in options.tokens:
        say(f"bare prefill of {tokens} tokens")
        prefill_ms, step_ms = bare(options, tokens)
        for mode in options.modes:
            figures = out[mode, tokens]
            figures["producer_prefill_ms"] = prefill_ms
            figures["decode_step_ms"] = step_ms
            figures["cold_over_bare"] = figures["cold_ms"] / (prefill_ms + step_ms)
    return out


def measure_shared(options, prompts):
    """Clients that ask different questions about one prefix, at once: how much each side computed."""
    say("a shared prefix")
    with Pair(options, options.threads) as pair:
        before = pair.producer_info()
        level = pair.bench("--concurrency", SHARED_CLIENTS, "--requests", SHARED_CLIENTS, "--warmup", 0,
                           "--shared-prefix-tokens", SHARED_PREFIX_TOKENS, "--questions", SHARED_CLIENTS,
                           "--question-tokens", 32, "-n", 8, "--seed", prompts.next(), "--mode", options.modes[0],
                           "--policy", "require", *NATIVE_RANGES)
        after = pair.producer_info()
    return {
        "clients": SHARED_CLIENTS,
        "prefix_tokens": SHARED_PREFIX_TOKENS,
        "question_tokens": 32,
        "mode": options.modes[0],
        "producer_prefilled_tokens": after["prefilled_tokens"] - before["prefilled_tokens"],
        "producer_skipped_tokens": after["skipped_tokens"] - before["skipped_tokens"],
        "prompt_tokens": level["prompt_tokens"],
        "ttft_ms": level["ttft_ms"],
        "seconds": level["seconds"],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--math", required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--tokens", type=int, nargs="+", required=True)
    parser.add_argument("--modes", nargs="+", required=True)
    parser.add_argument("--parts", nargs="+", required=True)
    parser.add_argument("--producer-set", action="append", default=[])
    parser.add_argument("--consumer-set", action="append", default=[])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the daemons' end
    options.cores = sorted(os.sched_getaffinity(0))
    about, prompts = machine.describe(), Prompts()

    rows = {(mode, tokens): {"mode": mode, "prefix_tokens": tokens} for mode in options.modes for tokens in options.tokens}
    parts = []
    if "ready" in options.parts:
        parts.append(measure_ready(options, prompts))
    if "cold" in options.parts:
        check(len(options.cores) > 1, "a cold measurement needs two cores")
        parts.append(measure_cold(options, prompts))
    for part in parts:
        for key, figures in part.items():
            rows[key].update(figures)
    document = {
        "threads": options.threads,
        "repeats": options.repeats,
        "native_head": 1,
        "native_tail": 16,
        "producer_set": options.producer_set,
        "consumer_set": options.consumer_set,
        "machine": about,
        "prefixes": list(rows.values()) if parts else [],
    }
    if "shared" in options.parts:
        document["shared_prefix"] = measure_shared(options, prompts)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
