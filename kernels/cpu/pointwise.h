// The vectorised inner loops of the pointwise ops: each runs over some rows on the calling thread.
#ifndef SCD_KERNELS_CPU_POINTWISE_H_
#define SCD_KERNELS_CPU_POINTWISE_H_

#include <cstdint>

#include "kernels/cpu/partition.h"
#include "kernels/rope_table.h"
#include "kernels/tensor_view.h"

namespace scd::cpu {

// out = x / sqrt(mean(x^2) + epsilon) * weight for `rows` of x [rows, dim]; out may be x.
void RmsNormRows(const ConstTensorView& x, const float* weight, float epsilon, const TensorView& out,
                 Range rows);

// Turns x [tokens, heads, head_dim] in place for `tokens`; positions were checked.
void RopeTokens(const TensorView& x, const std::int32_t* positions, const RopeTable& table, Range tokens);

// out = silu(gate) * up; out may be gate or up.
void SwiGluRows(const ConstTensorView& gate, const ConstTensorView& up, const TensorView& out, Range rows);

// x = silu(x).
void SiluRows(const TensorView& x, Range rows);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_POINTWISE_H_
