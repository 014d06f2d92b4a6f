#!/usr/bin/env python3
"""Makes tests/data/gguf: small GGUF files and the values that their tensors stand for.

Needs the PyPI packages numpy and gguf, whose writer and dequantisers are independent of this project:
  python3 -m venv /tmp/v && /tmp/v/bin/pip install numpy gguf==0.19.0 && /tmp/v/bin/python make_gguf_fixtures.py

quants.gguf          one tensor [2, 256] of every type that is read, blocks random (every bit pattern of the quants occurs)
quants.safetensors   their values, f32, by gguf.quants.dequantize
tiny-llama.gguf      two layers and 320 tokens of tests/data/tiny-llama, Q and K rows permuted as llama.cpp's converter does
"""
import json
import os
import struct

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "data")
OUT = os.path.join(DATA, "gguf")
Type = gguf.GGMLQuantizationType


def read_safetensors(path):
    raw = open(path, "rb").read()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = raw[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            value = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            value = np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).astype(np.float32)
        out[name] = value.reshape(entry["shape"])
    return out


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, value in tensors.items():
        data = np.ascontiguousarray(value, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


def random_blocks(rng, kind, rows, columns):
    """Rows of random blocks of a quantised type, with scales of ordinary size."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    scales = {  # byte offsets of the f16 scales
        Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
        Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    }[kind]
    for offset in scales:
        values = rng.normal(0, 0.05, len(blocks)).astype("<f2")
        blocks[:, offset:offset + 2] = values.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def make_quants(rng):
    path = os.path.join(OUT, "quants.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    expected = {}
    for kind in (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K):
        data = random_blocks(rng, kind, 2, 256)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        expected[kind.name] = dequantize(data, kind)
    plain = rng.normal(0, 1, (2, 256)).astype(np.float32)
    for kind in (Type.F32, Type.F16, Type.BF16):
        data = plain if kind == Type.F32 else quantize(plain, kind)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        expected[kind.name] = dequantize(data, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_safetensors(os.path.join(OUT, "quants.safetensors"), expected)


def permute(weights, heads):
    """llama.cpp's order of Q and K rows: the two halves of every head interleaved."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(
        weights.shape)


def make_tiny_llama():
    source = os.path.join(DATA, "tiny-llama")
    config = json.load(open(os.path.join(source, "config.json")))
    tensors = read_safetensors(os.path.join(source, "model.safetensors"))
    layers, vocab = 2, 320
    writer = gguf.GGUFWriter(os.path.join(OUT, "tiny-llama.gguf"), "llama")
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_vocab_size(vocab)

    tokenizer = json.load(open(os.path.join(source, "tokenizer.json")))
    by_id = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])[:vocab]
    known = {text for text, _ in by_id}
    special = {token["content"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([text for text, _ in by_id])
    writer.add_token_types([3 if text in special else 1 for text, _ in by_id])
    writer.add_token_merges([" ".join(m) for m in tokenizer["model"]["merges"] if "".join(m) in known])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(0)
    writer.add_chat_template("{{ messages }}")

    def add(name, value, kind):
        writer.add_tensor(name, quantize(np.ascontiguousarray(value), kind), raw_dtype=kind)

    add("token_embd.weight", tensors["model.embed_tokens.weight"][:vocab], Type.BF16)
    add("output_norm.weight", tensors["model.norm.weight"], Type.F32)
    for i in range(layers):
        p, b = f"model.layers.{i}.", f"blk.{i}."
        add(b + "attn_norm.weight", tensors[p + "input_layernorm.weight"], Type.F32)
        # BF16 in layer 0, where Q and K must come out exactly; Q8_0 in layer 1.
        kind = (Type.BF16, Type.Q8_0)[i]
        add(b + "attn_q.weight", permute(tensors[p + "self_attn.q_proj.weight"], config["num_attention_heads"]), kind)
        add(b + "attn_k.weight", permute(tensors[p + "self_attn.k_proj.weight"], config["num_key_value_heads"]), kind)
        add(b + "attn_v.weight", tensors[p + "self_attn.v_proj.weight"], kind)
        add(b + "attn_output.weight", tensors[p + "self_attn.o_proj.weight"], kind)
        add(b + "ffn_norm.weight", tensors[p + "post_attention_layernorm.weight"], Type.F32)
        add(b + "ffn_gate.weight", tensors[p + "mlp.gate_proj.weight"], Type.Q4_0)
        add(b + "ffn_up.weight", tensors[p + "mlp.up_proj.weight"], Type.Q5_1)
        add(b + "ffn_down.weight", tensors[p + "mlp.down_proj.weight"], Type.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    make_quants(np.random.default_rng(20240607))
    make_tiny_llama()
