#!/usr/bin/env python3
"""Makes tests/data/tiny-llama-adapter: a PEFT LoRA adapter for tests/data/tiny-llama and some weights after merging.

Needs numpy. The values follow PEFT's rules, written out here once more: which pattern holds for a module is decided by
re.match(rf"(.*\\.)?({key})$", module), and the scale is alpha / sqrt(rank) under use_rslora.
"""
import json
import math
import os
import re

import numpy as np

from make_gguf_fixtures import DATA, read_safetensors, write_safetensors

OUT = os.path.join(DATA, "tiny-llama-adapter")
CONFIG = {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "use_rslora": True, "bias": "none",
    "target_modules": ["q_proj", "v_proj", "mlp.down_proj"],
    "rank_pattern": {"layers\\.[01]\\.self_attn\\.q_proj": 3, "down_proj": 5},
    "alpha_pattern": {"v_proj": 6, "^model.layers.3.mlp.down_proj": 20},
    "modules_to_save": ["model.norm"], "fan_in_fan_out": False, "init_lora_weights": True, "lora_dropout": 0.1,
    "layers_to_transform": [0, 1, 3], "inference_mode": True, "base_model_name_or_path": "tiny-llama",
}


def pattern_value(patterns, module, otherwise):
    for key, value in patterns.items():
        if re.match(rf"(.*\.)?({key})$", module):
            return value
    return otherwise


def main():
    rng = np.random.default_rng(7)
    base = read_safetensors(os.path.join(DATA, "tiny-llama", "model.safetensors"))
    tensors, merged = {}, {}
    for layer in CONFIG["layers_to_transform"]:
        for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"):
            module = f"model.layers.{layer}.{name}"
            weight = base[module + ".weight"]
            rank = pattern_value(CONFIG["rank_pattern"], module, CONFIG["r"])
            alpha = pattern_value(CONFIG["alpha_pattern"], module, CONFIG["lora_alpha"])
            a = rng.normal(0, 0.2, (rank, weight.shape[1])).astype(np.float32)
            b = rng.normal(0, 0.2, (weight.shape[0], rank)).astype(np.float32)
            tensors[f"base_model.model.{module}.lora_A.weight"] = a
            tensors[f"base_model.model.{module}.lora_B.weight"] = b
            scale = alpha / math.sqrt(rank)
            merged[module + ".weight"] = weight.astype(np.float64) + scale * (b.astype(np.float64) @ a.astype(np.float64))
    norm = rng.normal(1, 0.1, base["model.norm.weight"].shape).astype(np.float32)
    tensors["base_model.model.model.norm.weight"] = norm
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "adapter_config.json"), "w") as out:
        json.dump(CONFIG, out, indent=1)
        out.write("\n")
    write_safetensors(os.path.join(OUT, "adapter_model.safetensors"), tensors)
    # The first rows of one weight of each sort: alpha and rank by default and by pattern.
    chosen = ("model.layers.0.self_attn.q_proj", "model.layers.3.self_attn.q_proj", "model.layers.1.self_attn.v_proj",
              "model.layers.0.mlp.down_proj", "model.layers.3.mlp.down_proj")
    expected = {name + ".weight": merged[name + ".weight"][:8] for name in chosen}
    expected["model.norm.weight"] = norm
    write_safetensors(os.path.join(OUT, "merged.safetensors"), expected)


if __name__ == "__main__":
    main()
