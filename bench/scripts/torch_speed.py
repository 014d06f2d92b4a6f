"""PyTorch's prefill speed for the model of a GGUF file, through transformers. Prints JSON: tokens/s of each run.

Usage: torch_speed.py MODEL.gguf --threads N [--prefill N ...] [--dtype bfloat16 float32] [--repeats N]

The file's blocks are turned back into numbers of the dtype; logits of the last token alone, as in our own benchmark.
"""
import argparse
import json
import os
import time

import torch
import transformers

WARM_UP_RUNS = 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prefill", type=int, nargs="*", default=[])
    parser.add_argument("--dtype", nargs="*", default=["bfloat16", "float32"])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    folder, name = os.path.split(os.path.abspath(options.model))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    out = {"version": torch.__version__, "transformers": transformers.__version__, "prefill": {}}
    for dtype in options.dtype:
        model = model.to(getattr(torch, dtype))
        rates = out["prefill"][dtype] = {}
        for count in options.prefill:
            rates[count] = []
            for run in range(WARM_UP_RUNS + options.repeats):
                ids = torch.tensor([[(i * 7919 + 13 + run) % model.config.vocab_size for i in range(count)]])
                with torch.no_grad():
                    begin = time.perf_counter()
                    model(ids, logits_to_keep=1)
                    rates[count].append(count / (time.perf_counter() - begin))
            del rates[count][:WARM_UP_RUNS]
    print(json.dumps(out))


if __name__ == "__main__":
    main()
