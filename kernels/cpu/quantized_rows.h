// Rows of activations rounded to 8 bits in groups of 32, each with its own scale, for products with quantised
// weights.
#ifndef SCD_KERNELS_CPU_QUANTIZED_ROWS_H_
#define SCD_KERNELS_CPU_QUANTIZED_ROWS_H_

#include <cstdint>

#include "hwy/aligned_allocator.h"
#include "kernels/tensor_view.h"

namespace scd::cpu {

// What a product needs of a group besides its numbers.
struct RowGroup {
  float scale;              // x is about scale * value; the largest magnitude is 127 * scale
  float sum;                // scale times the sum of the values
  std::int32_t values_sum;  // of the integers
};

class QuantizedRows {
 public:
  // x: [rows, depth] f32, depth a multiple of kWeightGroup. Afterwards valid() says whether the memory was
  // there. A group with a number that is not finite gets a scale that is not a number, so that results show
  // it.
  explicit QuantizedRows(const ConstTensorView& x);

  bool valid() const { return values_ != nullptr && groups_ != nullptr; }
  std::int64_t rows() const { return rows_; }
  // [depth]
  const std::int8_t* values(std::int64_t row) const { return values_.get() + row * depth_; }
  // [depth / kWeightGroup]
  const RowGroup* groups(std::int64_t row) const { return groups_.get() + row * num_groups_; }

 private:
  const std::int64_t rows_;
  const std::int64_t depth_;
  const std::int64_t num_groups_;
  hwy::AlignedFreeUniquePtr<std::int8_t[]> values_;
  hwy::AlignedFreeUniquePtr<RowGroup[]> groups_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_QUANTIZED_ROWS_H_
