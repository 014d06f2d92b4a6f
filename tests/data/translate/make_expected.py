#!/usr/bin/env python3
"""Makes expected.safetensors: a small bundle's tensors, rows to encode, and what numpy makes of them.

Two layers, 2 KV heads of 4, hidden 12. Layer 0 is Reuse, served at K 5 of 6 and V 7 of 8; layer 1 is Patch, fitted
at ranks 4 and 9. Seven tokens from position 3.
Run: python3 make_expected.py (needs numpy).
"""
import json
import os
import struct

import numpy as np

HEADS, HEAD_DIM, HIDDEN, MLP, TOKENS, FIRST, THETA, EPSILON = 2, 4, 12, 5, 7, 3, 10000.0, 1e-6
D_KV = HEADS * HEAD_DIM
rng = np.random.default_rng(20)
out = {}


def random(name, *shape):
    scale = 1 / np.sqrt(shape[-1]) if len(shape) == 2 else 0.3
    out[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
    return out[name].astype(np.float64)


def bf16(x):
    """Nearest bf16, ties to even, as float."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def translator(prefix, rank, width):
    return [random(f"{prefix}.{part}", *shape) for part, shape in (
        ("encoder", (rank, width)), ("encoder_bias", (rank,)), ("decoder", (width, rank)), ("decoder_bias", (width,)))]


def silu(x):
    return x / (1 + np.exp(-x))


def rope(k):
    half = HEAD_DIM // 2
    angle = (FIRST + np.arange(TOKENS))[:, None] * THETA ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    heads = k.reshape(TOKENS, HEADS, HEAD_DIM)
    a, b = heads[..., :half], heads[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).reshape(TOKENS, D_KV)


def save(name, x):
    out[name] = np.asarray(x, np.float32)


rows = {kind: 2 * random(f"rows.{kind}", TOKENS, width) * np.sqrt(width)
        for kind, width in (("k", D_KV), ("v", D_KV), ("h", HIDDEN))}
for kind in rows:
    save(f"rows.{kind}", rows[kind])
    rows[kind] = out[f"rows.{kind}"].astype(np.float64)

bundle = {}
for layer in (0, 1):
    for kind, rank in (("k", 6), ("v", 8)):
        bundle[layer, kind] = translator(f"layers.{layer}.{kind}", rank, D_KV)
bundle[1, "h"] = translator("layers.1.h", 9, HIDDEN)
for rank in (4, 9):
    bundle["mlp", rank] = [random(f"layers.1.h.{rank}.{part}", *shape) for part, shape in (
        ("mlp_in", (MLP, rank)), ("mlp_in_bias", (MLP,)), ("mlp_out", (HIDDEN, MLP)), ("mlp_out_bias", (HIDDEN,)))]
w_k, b_k = random("model.w_k", D_KV, HIDDEN), random("model.b_k", D_KV)
w_v, b_v = random("model.w_v", D_KV, HIDDEN), random("model.b_v", D_KV)
k_norm = 1 + random("model.k_norm", HEAD_DIM)
save("model.k_norm", k_norm)
k_norm = out["model.k_norm"].astype(np.float64)

for dtype, rounded in (("f32", lambda z: z.astype(np.float32)), ("bf16", bf16)):
    for kind, rank in (("k", 5), ("v", 7)):
        enc, enc_b, dec, dec_b = bundle[0, kind]
        z = rounded(rows[kind] @ enc[:rank].T + enc_b[:rank])
        save(f"codes.{dtype}.{kind}.{rank}", z)
        rebuilt = z.astype(np.float64) @ dec[:, :rank].T + dec_b
        save(f"rebuilt.{dtype}.{kind}.{rank}", rebuilt)
        if kind == "k":
            save(f"roped.{dtype}.k.{rank}", rope(rebuilt))
    for rank in (4, 9):
        enc, enc_b, dec, dec_b = bundle[1, "h"]
        mlp_in, mlp_in_b, mlp_out, mlp_out_b = bundle["mlp", rank]
        z = rounded(rows["h"] @ enc[:rank].T + enc_b[:rank])
        save(f"codes.{dtype}.h.{rank}", z)
        z = z.astype(np.float64)
        hidden = z @ dec[:, :rank].T + dec_b + silu(z @ mlp_in.T + mlp_in_b) @ mlp_out.T + mlp_out_b
        k = (hidden @ w_k.T + b_k).reshape(TOKENS, HEADS, HEAD_DIM)
        k = k / np.sqrt((k ** 2).mean(-1, keepdims=True) + EPSILON) * k_norm
        save(f"patched.{dtype}.k.{rank}", k.reshape(TOKENS, D_KV))
        save(f"patched.{dtype}.roped.{rank}", rope(k.reshape(TOKENS, D_KV)))
        save(f"patched.{dtype}.v.{rank}", hidden @ w_v.T + b_v)

header, data = {}, b""
for name in sorted(out):
    raw = out[name].tobytes()
    header[name] = {"dtype": "F32", "shape": list(out[name].shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
