// Products with few rows (decode steps): every weight is read once, so they run at the speed of memory, which
// a general product that first repacks its operands does not.
#ifndef SCD_KERNELS_CPU_FEW_ROWS_PRODUCT_H_
#define SCD_KERNELS_CPU_FEW_ROWS_PRODUCT_H_

#include <cstdint>

#include "kernels/cpu/partition.h"

namespace scd::cpu {

// Above this many rows a general product is faster.
inline constexpr std::int64_t kFewRows = 48;

struct FewRowsProduct {
  const float* x;  // [rows, depth]
  std::int64_t x_stride;
  std::int64_t rows;
  std::int64_t depth;
  const float* bias;  // of all columns, or nullptr
  float* out;         // [rows, columns]
  std::int64_t out_stride;
  bool accumulate;  // add to out
};

// How to cut the columns for `num_threads`.
Partition FewRowsPieces(int num_threads, std::int64_t columns, std::int64_t depth);

// out[:, begin..end) = x w^T + bias for rows [begin, end) of w [columns, depth], contiguous.
void MultiplyFewRowsF32(const FewRowsProduct& product, const float* w, std::int64_t begin, std::int64_t end);

// The same for w in bf16, widened on the way; sums are f32.
void MultiplyFewRowsBf16(const FewRowsProduct& product, const std::uint16_t* w, std::int64_t begin,
                         std::int64_t end);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_FEW_ROWS_PRODUCT_H_
