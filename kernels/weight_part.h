// One of several matrices that are packed as one weight because they are multiplied with one x (Q, K and V;
// gate and up), and what an adapter that is not merged adds to its product.
#ifndef SCD_KERNELS_WEIGHT_PART_H_
#define SCD_KERNELS_WEIGHT_PART_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace scd {

// Something that is added to a product, such as x A^T B^T of a LoRA adapter. Immutable.
class ProductUpdate {
 public:
  virtual ~ProductUpdate() = default;

  // out[rows, out] += what belongs to x [rows, in].
  virtual absl::Status AddTo(Backend& backend, Stream& stream, ConstTensorView x, TensorView out) const = 0;
};

// Owns nothing.
struct WeightPart {
  const PackedWeight* weight = nullptr;
  ColumnRange columns = {};               // of the weight's result; {}: all
  const ProductUpdate* update = nullptr;  // of these columns; nullptr: none

  std::int64_t begin() const { return columns.begin; }
  std::int64_t end() const;
  std::int64_t width() const { return end() - begin(); }
};

// out[rows, width] = x[rows, in_features] (columns of W)^T + their bias + the update; with accumulate it is
// added to out.
absl::Status MultiplyPart(Backend& backend, Stream& stream, const ConstTensorView& x, const WeightPart& part,
                          const TensorView& out, bool accumulate = false);

// The same for two parts: one product where they are neighbours in one weight and their results neighbours in
// memory (columns of one tensor).
absl::Status MultiplyParts(Backend& backend, Stream& stream, const ConstTensorView& x,
                           const WeightPart& first, const TensorView& first_out, const WeightPart& second,
                           const TensorView& second_out);

}  // namespace scd

#endif  // SCD_KERNELS_WEIGHT_PART_H_
