// Products of few rows with quantised weights: integer dot products of activations rounded to 8 bits, at the
// speed of reading the weights once.
#ifndef SCD_KERNELS_CPU_QUANTIZED_PRODUCT_H_
#define SCD_KERNELS_CPU_QUANTIZED_PRODUCT_H_

#include <cstdint>

#include "kernels/cpu/quantized_blocks.h"
#include "kernels/cpu/quantized_rows.h"

namespace scd::cpu {

struct QuantizedProduct {
  const QuantizedRows& x;
  const QuantizedBlocks& weights;
  const float* bias;  // of all columns of the weights, or nullptr
  float* out;         // [rows, columns from first_column on]
  std::int64_t out_stride;
  std::int64_t first_column;
  bool accumulate;  // add to out
};

// The columns of blocks [blocks.begin, blocks.end). What a row gives does not depend on the rows beside it.
void MultiplyQuantized(const QuantizedProduct& product, Range blocks);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_QUANTIZED_PRODUCT_H_
