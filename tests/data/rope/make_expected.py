#!/usr/bin/env python3
"""Writes expected.json: inverse RoPE frequencies and attention factors of every scaling kind, computed with numpy.

Run: python3 make_expected.py   (needs numpy; writes beside itself)
Computed from the definitions, in double precision from the float32 base frequencies:
  base     f_i = theta^(-2i/d)
  linear   f_i / factor
  llama3   by wavelength w = 2 pi / f: w < L/high keeps f; w > L/low divides it by factor; between, the two are
           blended with weight s = (L/w - low) / (high - low) on the unscaled one (L: original context)
  yarn     dimension of n turns over L: d ln(L / (2 pi n)) / (2 ln theta); dimensions before that of beta_fast are
           kept, those after that of beta_slow divided by factor, with a linear ramp between; cos and sin are
           multiplied by 0.1 ln(factor) + 1, by the ratio of 0.1 mscale ln(factor) + 1 for mscale and mscale_all_dim
           where both are given and not 0, or by attention_factor where that is given
"""
import json
import os

import numpy as np

CASES = [
    dict(name="default", head_dim=64, type="default", theta=100000.0),
    dict(name="default_small_theta", head_dim=16, type="default", theta=10000.0),
    dict(name="linear", head_dim=64, type="linear", theta=10000.0, factor=2.5),
    dict(name="llama3", head_dim=128, type="llama3", theta=500000.0, factor=8.0, low_freq_factor=1.0,
         high_freq_factor=4.0, original=8192),
    dict(name="llama3_short_context", head_dim=8, type="llama3", theta=500000.0, factor=32.0, low_freq_factor=2.0,
         high_freq_factor=5.0, original=64),
    dict(name="yarn", head_dim=128, type="yarn", theta=1000000.0, factor=4.0, original=32768),
    dict(name="yarn_betas", head_dim=64, type="yarn", theta=10000.0, factor=16.0, original=4096, beta_fast=64.0,
         beta_slow=2.0),
    dict(name="yarn_untruncated", head_dim=64, type="yarn", theta=150000.0, factor=32.0, original=4096,
         truncate=False),
    dict(name="yarn_attention_factor", head_dim=64, type="yarn", theta=10000.0, factor=8.0, original=2048,
         attention_factor=0.75),
    dict(name="yarn_mscale", head_dim=64, type="yarn", theta=10000.0, factor=40.0, original=4096, mscale=0.707,
         mscale_all_dim=1.0),
    dict(name="yarn_mscale_alone", head_dim=64, type="yarn", theta=10000.0, factor=40.0, original=4096, mscale=0.707),
    dict(name="yarn_mscale_zero", head_dim=64, type="yarn", theta=10000.0, factor=40.0, original=4096, mscale=0.707,
         mscale_all_dim=0.0),
    dict(name="yarn_factor_one", head_dim=64, type="yarn", theta=10000.0, factor=1.0, original=4096),
    dict(name="yarn_tiny_context", head_dim=16, type="yarn", theta=10000.0, factor=4.0, original=8),
]


def base_frequencies(case):
    exponents = np.arange(0, case["head_dim"], 2, dtype=np.float32) / np.float32(case["head_dim"])
    return (np.float32(1.0) / np.power(np.float32(case["theta"]), exponents)).astype(np.float64)


def linear(case, f):
    return f / case["factor"], 1.0


def llama3(case, f):
    wavelength = 2.0 * np.pi / f
    kept = (case["original"] / wavelength - case["low_freq_factor"]) / (
        case["high_freq_factor"] - case["low_freq_factor"])
    blended = f * kept + f / case["factor"] * (1.0 - kept)
    out = np.where(wavelength > case["original"] / case["low_freq_factor"], f / case["factor"], blended)
    return np.where(wavelength < case["original"] / case["high_freq_factor"], f, out), 1.0


def yarn(case, f):
    d = case["head_dim"]

    def dimension(turns):
        return d * np.log(case["original"] / (turns * 2.0 * np.pi)) / (2.0 * np.log(case["theta"]))

    low, high = dimension(case.get("beta_fast", 32.0)), dimension(case.get("beta_slow", 1.0))
    if case.get("truncate", True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0.0), min(high, d - 1.0)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0.0, 1.0)
    frequencies = f * (1.0 - ramp) + f / case["factor"] * ramp

    def mscale(m):
        return 1.0 if case["factor"] <= 1.0 else 0.1 * m * np.log(case["factor"]) + 1.0

    if "attention_factor" in case:
        factor = case["attention_factor"]
    elif case.get("mscale") and case.get("mscale_all_dim"):
        factor = mscale(case["mscale"]) / mscale(case["mscale_all_dim"])
    else:
        factor = mscale(1.0)
    return frequencies, factor


def main():
    scale = {"default": lambda case, f: (f, 1.0), "linear": linear, "llama3": llama3, "yarn": yarn}
    for case in CASES:
        inverse, factor = scale[case["type"]](case, base_frequencies(case))
        case["inverse"] = [float(f"{x:.9g}") for x in inverse]
        case["attention_scaling"] = float(f"{factor:.12g}")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.json")
    with open(path, "w") as out:
        json.dump(CASES, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
