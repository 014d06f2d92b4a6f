#!/usr/bin/env python3
"""Expected values of the closed forms, computed with numpy from the definitions: tests/data/closed_forms.json.

Run: make_closed_forms.py > ../data/closed_forms.json   (needs numpy)
"""
import json
import sys

import numpy as np

ROWS, DIM_A, DIM_B, LAMBDA = 40, 6, 5, 1e-2


def ridge(a, target):
    gram = a.T @ a
    return np.linalg.solve(gram + LAMBDA * np.trace(gram) / len(gram) * np.eye(len(gram)), a.T @ target)


def joint(a, b, rank):
    x = np.concatenate([a, b], 1)
    u = np.linalg.svd(x, full_matrices=False)[2][:rank].T
    return ridge(a, x @ u), u[a.shape[1]:].T


def reduced_rank(a, b, rank):
    p = ridge(a, b)
    u = np.linalg.svd(a @ p, full_matrices=False)[2][:rank].T
    return p @ u, u.T


def main():
    random = np.random.default_rng(7)
    mixed = random.normal(size=(ROWS, 4)) @ random.normal(size=(4, DIM_A + DIM_B)) + 0.2 * random.normal(size=(ROWS, DIM_A + DIM_B))
    rows = np.round(mixed + random.normal(size=DIM_A + DIM_B) * 3, 3)
    a, b = rows[:, :DIM_A], rows[:, DIM_A:]
    mean_a, mean_b = a.mean(0), b.mean(0)
    out = {"ridge_lambda": LAMBDA, "a": a.tolist(), "b": b.tolist(), "mean_a": mean_a.tolist(), "mean_b": mean_b.tolist()}
    # The product of encoder and decoder: eigenvectors are only defined up to their sign.
    for name, fit in (("joint", joint), ("reduced_rank", reduced_rank)):
        for rank in (1, 3, 5):
            encoder, decoder = fit(a - mean_a, b - mean_b, rank)
            out[f"{name}_{rank}"] = (encoder @ decoder).tolist()
    json.dump(out, sys.stdout, indent=0)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
