"""The work of bench/compare_llama_cpp.sh, which explains the options."""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
PREFILL = (512, 2048)
BATCHES = (1, 16)
CONTEXT = 64
STEPS = 128


def say(text):
    print(f"compare_llama_cpp: {text}", file=sys.stderr, flush=True)


def run(command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compare_llama_cpp: exit status {done.returncode}: {' '.join(str(part) for part in command)}")
    return json.loads(done.stdout)


class Sides:
    """One method for each contestant: {"prefill": {tokens: [tokens/s]}, "decode": {batch: [tokens/s]}}."""

    def __init__(self, options):
        self.options = options
        # How much of the read bandwidth, measured in the same process, our decoding takes for its weights.
        self.read_shares = {}

    def ours(self, model, prefill, batches):
        command = [f"{self.options.build}/bin/transformer_benchmark", "--model", model, "--threads", self.options.threads,
                   "--weights", "auto", "--math", self.options.math, "--context", CONTEXT, "--steps", STEPS,
                   "--repeats", self.options.repeats, "--json", "-"]
        command += ["--prefill", *prefill] if prefill else ["--prefill", 1]
        document = run(command + ["--decode", *batches])
        for entry in document["decode"]:
            name = f"{os.path.basename(model)}, batch {entry['batch']}"
            self.read_shares.setdefault(name, []).append(entry["share_of_read_bandwidth"])
        return {
            "version": document["backend"],
            "prefill": {str(entry["tokens"]): entry["tokens_per_s"] for entry in document["prefill"]},
            "decode": {str(entry["batch"]): entry["tokens_per_s"] for entry in document["decode"]},
        }

    def llama(self, model, prefill, batches):
        command = [self.options.llama_python, f"{HERE}/llama_cpp_speed.py", model, "--threads", self.options.threads,
                   "--context", CONTEXT, "--steps", STEPS, "--repeats", self.options.repeats,
                   "--prefill", *prefill, "--decode", *batches]
        return run(command)

    def torch(self, model):
        return run([self.options.torch_python, f"{HERE}/torch_speed.py", model, "--threads", self.options.threads,
                    "--repeats", self.options.repeats, "--dtype", *self.options.torch_dtypes, "--prefill", *PREFILL])


class Rates:
    """Tokens/s of each side and size, of all turns."""

    def __init__(self):
        self.values = {}

    def add(self, side, kind, rates):
        for size, values in rates.items():
            self.values.setdefault(side, {}).setdefault(kind, {}).setdefault(size, []).extend(values)

    def median(self, side, kind, size):
        return statistics.median(self.values[side][kind][str(size)])

    def ratio(self, ours, theirs, kind, size):
        return self.median(ours, kind, size) / self.median(theirs, kind, size)

    def document(self):
        return {side: {kind: {size: {"median": statistics.median(values), "runs": values}
                              for size, values in sizes.items()}
                       for kind, sizes in kinds.items()}
                for side, kinds in self.values.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--llama-python", required=True)
    parser.add_argument("--torch-python", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--math", required=True)
    parser.add_argument("--torch-dtypes", nargs="*", default=["bfloat16", "float32"])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the end of what runs
    about = machine.describe()

    os.makedirs(options.work, exist_ok=True)
    eight_bits = os.path.join(options.work, os.path.basename(options.model) + ".Q8_0.gguf")
    if not os.path.exists(eight_bits):
        say(f"making {eight_bits}")
        subprocess.run([options.torch_python, f"{HERE}/make_q8_0.py", options.model, eight_bits], check=True)

    sides, rates, versions = Sides(options), Rates(), {}
    for turn in range(options.turns):
        say(f"turn {turn + 1} of {options.turns}: 4 bits")
        for name, measure in (("ours_4bit", sides.ours), ("llama_cpp_4bit", sides.llama)):
            result = measure(options.model, PREFILL, BATCHES)
            versions[name] = result["version"]
            rates.add(name, "prefill", result["prefill"])
            rates.add(name, "decode", result["decode"])
        say(f"turn {turn + 1} of {options.turns}: 8 bits")
        for name, measure in (("ours_8bit", sides.ours), ("llama_cpp_8bit", sides.llama)):
            rates.add(name, "decode", measure(eight_bits, (), BATCHES)["decode"])
        if options.torch_dtypes:
            say(f"turn {turn + 1} of {options.turns}: PyTorch")
            result = sides.torch(options.model)
            versions["torch"] = result["version"]
            for dtype, prefill in result["prefill"].items():
                rates.add(f"torch_{dtype}", "prefill", prefill)

    ratios = {f"prefill_{count}_ratio": rates.ratio("ours_4bit", "llama_cpp_4bit", "prefill", count)
              for count in PREFILL}
    ratios["decode_b1_8bit_ratio"] = rates.ratio("ours_8bit", "llama_cpp_8bit", "decode", 1)
    ratios["decode_b1_4bit_ratio"] = rates.ratio("ours_4bit", "llama_cpp_4bit", "decode", 1)
    ratios["decode_b16_ratio"] = rates.ratio("ours_4bit", "llama_cpp_4bit", "decode", 16)
    ratios["decode_b16_8bit_ratio"] = rates.ratio("ours_8bit", "llama_cpp_8bit", "decode", 16)
    for dtype, key in (("bfloat16", "torch_ratio"), ("float32", "torch_f32_ratio")):
        if dtype in options.torch_dtypes:
            for count in PREFILL:
                ratios[f"prefill_{count}_{key}"] = rates.ratio("ours_4bit", f"torch_{dtype}", "prefill", count)
    print(json.dumps({
        **ratios,
        "threads": options.threads,
        "turns": options.turns,
        "context_tokens": CONTEXT,
        "decode_steps": STEPS,
        "model": os.path.basename(options.model),
        "versions": versions,
        "machine": about,
        "read_bandwidth_shares": {name: statistics.median(shares) for name, shares in sides.read_shares.items()},
        "tokens_per_s": rates.document(),
    }, indent=1))


if __name__ == "__main__":
    main()
