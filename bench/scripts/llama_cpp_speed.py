"""llama.cpp's prefill and decode speed for one GGUF file, through llama-cpp-python. Prints JSON: tokens/s of each run.

Usage: llama_cpp_speed.py MODEL.gguf --threads N [--prefill N ...] [--decode BATCH ...] [--context N] [--steps N] [--repeats N]

Only the low-level interface, so that nothing but llama_decode is timed: no sampling, logits for the last token alone.
"""
import argparse
import json
import time

import llama_cpp as lc

WARM_UP_RUNS = 1
MICRO_BATCH = 512


@lc.llama_log_callback
def ignore(_level, _text, _data):
    """The library's log, hundreds of lines."""


def tokens(count, vocabulary, seed):
    """The ids that our own benchmark uses."""
    return [(i * 7919 + 13 + seed) % vocabulary for i in range(count)]


class Session:
    def __init__(self, path, threads, sequences, positions):
        lc.llama_log_set(ignore, None)
        lc.llama_backend_init()
        self.model = lc.llama_model_load_from_file(path.encode(), lc.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        params = lc.llama_context_default_params()
        params.n_ctx = sequences * positions
        params.n_batch = params.n_ubatch = MICRO_BATCH
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        self.context = lc.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"{path}: llama.cpp cannot make a context of {params.n_ctx} tokens")
        self.vocabulary = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model))
        self.batch = lc.llama_batch_init(MICRO_BATCH, 0, 1)

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)

    def step(self, rows):
        """rows: (token, position, sequence, wants logits), at most MICRO_BATCH"""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted
        if lc.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")

    def prompt(self, ids, sequence):
        last = len(ids) - 1
        for begin in range(0, len(ids), MICRO_BATCH):
            part = ids[begin:begin + MICRO_BATCH]
            self.step([(id, begin + i, sequence, begin + i == last) for i, id in enumerate(part)])
        lc.llama_synchronize(self.context)


def prefill(session, count, repeats):
    rates = []
    for run in range(WARM_UP_RUNS + repeats):
        session.clear()
        ids = tokens(count, session.vocabulary, run)
        begin = time.perf_counter()
        session.prompt(ids, 0)
        rates.append(count / (time.perf_counter() - begin))
    return rates[WARM_UP_RUNS:]


def decode(session, batch, context, steps, repeats):
    rates = []
    for run in range(WARM_UP_RUNS + repeats):
        session.clear()
        for sequence in range(batch):
            session.prompt(tokens(context, session.vocabulary, run + sequence), sequence)
        ids = tokens(steps, session.vocabulary, run)
        begin = time.perf_counter()
        for i in range(steps):
            session.step([(ids[i], context + i, sequence, True) for sequence in range(batch)])
        lc.llama_synchronize(session.context)
        rates.append(batch * steps / (time.perf_counter() - begin))
    return rates[WARM_UP_RUNS:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prefill", type=int, nargs="*", default=[])
    parser.add_argument("--decode", type=int, nargs="*", default=[])
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    out = {"version": lc.__version__, "prefill": {}, "decode": {}}
    if options.prefill:
        session = Session(options.model, options.threads, 1, max(options.prefill) + 8)
        for count in options.prefill:
            out["prefill"][count] = prefill(session, count, options.repeats)
    for batch in options.decode:
        session = Session(options.model, options.threads, batch, options.context + options.steps + 8)
        out["decode"][batch] = decode(session, batch, options.context, options.steps, options.repeats)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
