#!/usr/bin/env python3
"""Writes expected_values.h: what each op gives for small inputs, from its definition, in double precision.

The inputs are made by the same formula here (pattern) and in reference_test.cc (Pattern); every value is a multiple
of 1/8 and therefore exact in float, f16 and bf16. Usage: make_expected_values.py > expected_values.h
"""
import math


def pattern(count, seed):
    return [((i * 37 + seed * 11) % 23 - 11) / 8 for i in range(count)]


def rows(values, width):
    return [values[i:i + width] for i in range(0, len(values), width)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def matmul():
    x, weight, bias = rows(pattern(3 * 5, 1), 5), rows(pattern(4 * 5, 2), 5), pattern(4, 3)
    return [dot(x_row, w_row) + b for x_row in x for w_row, b in zip(weight, bias)]


def gemm():
    """0.5 * a^T b - 2 c with a stored [4, 3], b [4, 2], c [3, 2]."""
    a, b, c = rows(pattern(4 * 3, 4), 3), rows(pattern(4 * 2, 5), 2), rows(pattern(3 * 2, 6), 2)
    return [0.5 * sum(a[k][i] * b[k][j] for k in range(4)) - 2 * c[i][j] for i in range(3) for j in range(2)]


def rms_norm():
    weight = pattern(6, 8)
    out = []
    for row in rows(pattern(2 * 6, 7), 6):
        root = math.sqrt(dot(row, row) / 6 + 1e-5)
        out += [x / root * w for x, w in zip(row, weight)]
    return out


def rope_angles(positions, head_dim, theta):
    return [[p * theta ** (-2 * i / head_dim) for i in range(head_dim // 2)] for p in range(positions)]


def rope():
    """Two tokens at positions 3 and 1, two heads of six, theta 100."""
    x, angles = rows(pattern(2 * 2 * 6, 9), 6), rope_angles(4, 6, 100.0)
    out = []
    for index, head in enumerate(x):
        angle = angles[(3, 1)[index // 2]]
        low = [head[i] * math.cos(angle[i]) - head[i + 3] * math.sin(angle[i]) for i in range(3)]
        high = [head[i + 3] * math.cos(angle[i]) + head[i] * math.sin(angle[i]) for i in range(3)]
        out += low + high
    return out


def silu(x):
    return x / (1 + math.exp(-x))


def swiglu():
    return [silu(g) * u for g, u in zip(pattern(2 * 5, 10), pattern(2 * 5, 11))]


def attention(window):
    """Queries at positions 2, 3, 4 of a sequence of 5; four heads of four over two KV heads; scale 0.5."""
    q = rows(rows(pattern(3 * 4 * 4, 12), 4), 4)
    k = rows(rows(pattern(5 * 2 * 4, 13), 4), 2)
    v = rows(rows(pattern(5 * 2 * 4, 14), 4), 2)
    out = []
    for index, heads in enumerate(q):
        position = 2 + index
        first = 0 if window == 0 else max(0, position - window + 1)
        for h, query in enumerate(heads):
            weights = [math.exp(0.5 * dot(query, k[p][h // 2])) for p in range(first, position + 1)]
            total = sum(weights)
            for i in range(4):
                out.append(sum(w * v[p][h // 2][i] for w, p in zip(weights, range(first, position + 1))) / total)
    return out


def array(name, values):
    lines = []
    for group in rows(values, 6):
        lines.append("    " + ", ".join(f"{value:.10g}" for value in group) + ",\n")
    return f"inline const std::vector<double> {name} = {{\n{''.join(lines)}}};\n"


def main():
    angles = rope_angles(4, 6, 100.0)
    parts = [
        ("kMatMul", matmul()),
        ("kGemm", gemm()),
        ("kRmsNorm", rms_norm()),
        ("kRopeCos", [math.cos(a) for row in angles for a in row]),
        ("kRopeSin", [math.sin(a) for row in angles for a in row]),
        ("kRope", rope()),
        ("kSilu", [silu(x) for x in pattern(2 * 5, 10)]),
        ("kSwiGlu", swiglu()),
        ("kAttention", attention(0)),
        ("kAttentionWindow2", attention(2)),
    ]
    print("// Written by make_expected_values.py beside this file; not edited by hand.")
    print("#ifndef SCD_TESTS_KERNELS_EXPECTED_VALUES_H_\n#define SCD_TESTS_KERNELS_EXPECTED_VALUES_H_\n")
    print("#include <vector>\n\n// clang-format off\nnamespace scd::testing::expected {\n")
    print("\n".join(array(name, values) for name, values in parts))
    print("}  // namespace scd::testing::expected\n// clang-format on\n\n#endif  // SCD_TESTS_KERNELS_EXPECTED_VALUES_H_")


if __name__ == "__main__":
    main()
