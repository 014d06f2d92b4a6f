// Quantised weights widened for a general product.
#ifndef SCD_KERNELS_CPU_QUANTIZED_PANEL_H_
#define SCD_KERNELS_CPU_QUANTIZED_PANEL_H_

#include <cstdint>

#include "kernels/cpu/quantized_blocks.h"

namespace scd::cpu {

// panel[in_features, kBlockColumns * number of blocks] = the columns of `blocks`, transposed; 0 where a block
// has fewer columns. As f32, or rounded to bf16.
void DequantizeBlocks(const QuantizedBlocks& weights, Range blocks, float* panel);
void DequantizeBlocks(const QuantizedBlocks& weights, Range blocks, std::uint16_t* panel);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_QUANTIZED_PANEL_H_
