#!/usr/bin/env python3
"""Makes quantised.safetensors: rows, and the bytes and numbers that numpy makes of them in int8 and int4.

Groups of 32, asymmetric, f16 scale and minimum (docs/formats.md). K: 70 tokens of 9 columns in granules of 32, 32 and 6
tokens. V: 5 tokens of 70 columns in groups of 32, 32 and 6 columns. Run: python3 make_quantised.py (needs numpy).
"""
import json
import os
import struct

import numpy as np

GROUP = 32
rng = np.random.default_rng(4)
out = {}


def quantise(values, levels):
    """One group -> numbers, scale, minimum (both f16)."""
    minimum = np.float16(values.min())
    scale = np.float16((values.max() - np.float32(minimum)) / np.float32(levels))
    if scale == 0:
        return np.zeros(len(values), np.uint8), scale, minimum
    q = np.rint((values - np.float32(minimum)) / np.float32(scale))
    return np.clip(q, 0, levels).astype(np.uint8), scale, minimum


def rows_to_bytes(numbers, bits):
    if bits == 8:
        return numbers.tobytes()
    if numbers.shape[1] % 2:
        numbers = np.pad(numbers, ((0, 0), (0, 1)))
    return (numbers[:, 0::2] | numbers[:, 1::2] << 4).astype(np.uint8).tobytes()


def encode(x, bits, by_column):
    payload, restored = b"", np.zeros_like(x)
    granule = GROUP if by_column else 1
    for begin in range(0, len(x), granule):
        rows = x[begin:begin + granule]
        numbers = np.zeros(rows.shape, np.uint8)
        scales, minima = [], []
        if by_column:
            groups = [(slice(None), slice(c, c + 1)) for c in range(x.shape[1])]
        else:
            groups = [(slice(None), slice(c, min(c + GROUP, x.shape[1]))) for c in range(0, x.shape[1], GROUP)]
        for group in groups:
            q, scale, minimum = quantise(rows[group].reshape(-1), 2**bits - 1)
            shape = rows[group].shape
            numbers[group] = q.reshape(shape)
            restored[begin:begin + granule][group] = (np.float32(minimum) + q.astype(np.float32) * np.float32(scale)).reshape(shape)
            scales.append(scale), minima.append(minimum)
        payload += np.array(scales, "<f2").tobytes() + np.array(minima, "<f2").tobytes() + rows_to_bytes(numbers, bits)
    return payload, restored


for kind, shape in (("k", (70, 9)), ("v", (5, 70))):
    x = (rng.standard_normal(shape) * np.exp(rng.standard_normal(shape[1]))).astype(np.float32) + 3
    x[:, 1] = 0.75  # nothing to quantise for K
    x[2, 3] = 41.5  # an outlier
    out[f"{kind}.rows"] = x
    for bits in (4, 8):
        payload, restored = encode(x, bits, kind == "k")
        out[f"{kind}.int{bits}.payload"] = np.frombuffer(payload, np.uint8)
        out[f"{kind}.int{bits}.restored"] = restored

header, offset = {}, 0
for name, value in out.items():
    dtype = {"float32": "F32", "uint8": "U8"}[str(value.dtype)]
    header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
    offset += value.nbytes
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantised.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in out.values()))
