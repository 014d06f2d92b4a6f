#!/usr/bin/env python3
"""What the drift measurement must find for the pair of drift_rig.h, computed with numpy from the definitions:
tests/data/drift.json.

Run: make_expected_drift.py > ../../data/drift.json   (needs numpy)
"""
import json

import numpy as np

LAYERS, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY, EPSILON = 3, 24, 40, 4, 2, 8, 50, 1e-5
D_KV = KV_HEADS * HEAD_DIM
RANK_K, RANK_V, RANK_H, MLP = 10, 13, 16, 12
HEAD, TAIL, PROMPT, CONTINUATION = 2, 3, 31, 6
PRODUCER_THETA, CONSUMER_THETA = 10000.0, 500.0
STRENGTH = 0.3
# WeightKind's numbers and shapes.
KINDS = {"embedding": (0, (VOCABULARY, HIDDEN)), "attention_norm": (3, (HIDDEN,)), "q": (4, (HEADS * HEAD_DIM, HIDDEN)),
         "k": (5, (D_KV, HIDDEN)), "v": (6, (D_KV, HIDDEN)), "o": (7, (HIDDEN, HEADS * HEAD_DIM)),
         "q_bias": (8, (HEADS * HEAD_DIM,)), "k_bias": (9, (D_KV,)), "v_bias": (10, (D_KV,)),
         "q_norm": (12, (HEAD_DIM,)), "k_norm": (13, (HEAD_DIM,)), "mlp_norm": (14, (HIDDEN,)),
         "gate": (15, (INTERMEDIATE, HIDDEN)), "up": (16, (INTERMEDIATE, HIDDEN)), "down": (17, (HIDDEN, INTERMEDIATE))}


def uniform(seed, count):
    """std::mt19937(seed), each output % 20001 / 10000 - 1."""
    raw = np.random.RandomState(seed % 2**32)._bit_generator.random_raw(count)
    return (raw % 20001) / 10000.0 - 1.0


def random_weight(name, layer, seed):
    kind, shape = KINDS[name]
    u = uniform(seed * 7919 + kind * 131 + layer, int(np.prod(shape))).reshape(shape)
    if len(shape) == 2:
        return u * 1.2 / np.sqrt(shape[1])
    return 1.0 + 0.4 * u if name.endswith("norm") else 0.3 * u


class Model:
    def __init__(self, disturbed, theta):
        self.disturbed, self.theta = disturbed, theta
        self.embedding = self.weight("embedding", -1)
        self.layers = [{n: self.weight(n, layer) for n in KINDS if n != "embedding"} for layer in range(LAYERS)]

    def weight(self, name, layer):
        weight = random_weight(name, layer, 1)
        return weight + STRENGTH * random_weight(name, layer, 2) if self.disturbed and weight.ndim == 2 else weight

    def rope(self, x, positions):
        frequencies = self.theta ** (-np.arange(HEAD_DIM // 2) * 2.0 / HEAD_DIM)
        angles = np.asarray(positions)[:, None, None] * frequencies
        a, b = x[..., :HEAD_DIM // 2], x[..., HEAD_DIM // 2:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)

    def kv(self, layer, normed):
        """K before RoPE and V, [rows, d_kv]."""
        w = self.layers[layer]
        k = (normed @ w["k"].T + w["k_bias"]).reshape(-1, KV_HEADS, HEAD_DIM)
        return norm(k, w["k_norm"]).reshape(-1, D_KV), normed @ w["v"].T + w["v_bias"]

    def run_layer(self, layer, x, first, before):
        """Rows at positions first..., over K (before RoPE) and V of all positions before them."""
        w, rows = self.layers[layer], len(x)
        normed = norm(x, w["attention_norm"])
        own = self.kv(layer, normed)
        k, v = (np.concatenate([a[:first], b]).reshape(-1, KV_HEADS, HEAD_DIM) for a, b in zip(before, own))
        q = norm((normed @ w["q"].T + w["q_bias"]).reshape(-1, HEADS, HEAD_DIM), w["q_norm"])
        positions = np.arange(first, first + rows)
        q, k = self.rope(q, positions), self.rope(k, np.arange(first + rows))
        attended = np.zeros((rows, HEADS, HEAD_DIM))
        for i in range(rows):
            for h in range(HEADS):
                g = h // (HEADS // KV_HEADS)
                scores = k[:first + i + 1, g] @ q[i, h] / np.sqrt(HEAD_DIM)
                weights = np.exp(scores - scores.max())
                attended[i, h] = weights @ v[:first + i + 1, g] / weights.sum()
        x = x + attended.reshape(rows, -1) @ w["o"].T
        m = norm(x, w["mlp_norm"])
        gate = m @ w["gate"].T
        return x + (gate / (1 + np.exp(-gate)) * (m @ w["up"].T)) @ w["down"].T, own, normed


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def translators():
    shapes = {}
    for layer in range(LAYERS):
        for kind, rank, width in (("k", 12, D_KV), ("v", 14, D_KV)) + ((("h", RANK_H, HIDDEN),) if layer > 0 else ()):
            name = f"layers.{layer}.{kind}."
            shapes.update({name + "encoder": (rank, width), name + "encoder_bias": (rank,),
                           name + "decoder": (width, rank), name + "decoder_bias": (width,)})
        if layer > 0:
            name = f"layers.{layer}.h.{RANK_H}."
            shapes.update({name + "mlp_in": (MLP, RANK_H), name + "mlp_in_bias": (MLP,),
                           name + "mlp_out": (HIDDEN, MLP), name + "mlp_out_bias": (HIDDEN,)})
    tensors = {}
    for i, name in enumerate(sorted(shapes)):
        u = uniform(1000 + i, int(np.prod(shapes[name]))).reshape(shapes[name])
        tensors[name] = np.eye(*shapes[name]) + 0.1 * u if name.endswith("coder") else 0.1 * u
    return tensors


def code(tensors, name, x, rank):
    z = x @ tensors[name + "encoder"][:rank].T + tensors[name + "encoder_bias"][:rank]
    return z, z @ tensors[name + "decoder"][:, :rank].T + tensors[name + "decoder_bias"]


def relative(actual, native):
    return float(np.linalg.norm(actual - native) / np.linalg.norm(native))


def main():
    producer, consumer, tensors = Model(False, PRODUCER_THETA), Model(True, CONSUMER_THETA), translators()
    tokens = [(i * 17 + 3) % VOCABULARY for i in range(PROMPT + CONTINUATION)]
    end = PROMPT - 1 - TAIL
    nothing = (np.zeros((0, D_KV)), np.zeros((0, D_KV)))

    def through(model, x):
        """K, V and normalised input of every layer."""
        states = []
        for layer in range(LAYERS):
            x, kv, normed = model.run_layer(layer, x, 0, nothing)
            states.append((kv, normed))
        return states

    theirs = through(producer, producer.embedding[tokens[:end]])
    ours = through(consumer, consumer.embedding[tokens[:end]])

    def rows(prefix):
        """What enters each layer and leaves the last, positions end..."""
        x = [consumer.embedding[tokens[end:]]]
        for layer in range(LAYERS):
            x.append(consumer.run_layer(layer, x[-1], end, prefix[layer])[0])
        return x

    native_kv = [kv for kv, _ in ours]
    native = rows(native_kv)
    decoded = slice(TAIL, None)
    out = {}
    for mode, patched in (("reuse", []), ("scd", [1])):
        rebuilt = []
        for layer in range(LAYERS):
            (k, v), normed = theirs[layer]
            if layer in patched:
                name = f"layers.{layer}.h."
                z, h = code(tensors, name, normed, RANK_H)
                name += f"{RANK_H}."
                m = z @ tensors[name + "mlp_in"].T + tensors[name + "mlp_in_bias"]
                m = m / (1 + np.exp(-m))
                k, v = consumer.kv(layer, h + m @ tensors[name + "mlp_out"].T + tensors[name + "mlp_out_bias"])
            else:
                k = code(tensors, f"layers.{layer}.k.", k, RANK_K)[1]
                v = code(tensors, f"layers.{layer}.v.", v, RANK_V)[1]
            rebuilt.append(tuple(np.concatenate([n[:HEAD], r[HEAD:]]) for n, r in zip(native_kv[layer], (k, v))))
        actual = rows(rebuilt)
        out[mode] = {
            "k": [relative(r[0][HEAD:], n[0][HEAD:]) for r, n in zip(rebuilt, native_kv)],
            "v": [relative(r[1][HEAD:], n[1][HEAD:]) for r, n in zip(rebuilt, native_kv)],
            "hidden": [relative(a[decoded], n[decoded]) for a, n in zip(actual, native)],
            "from_input": [relative(consumer.run_layer(i, actual[i], end, native_kv[i])[0][decoded], native[i + 1][decoded])
                           for i in range(LAYERS)],
            "from_kv": [relative(consumer.run_layer(i, native[i], end, rebuilt[i])[0][decoded], native[i + 1][decoded])
                        for i in range(LAYERS)]}
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
