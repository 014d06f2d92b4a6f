// Weights as they lie in a model's files: what a model's digest is made of.
#ifndef SCD_COMMON_MODEL_STORED_WEIGHTS_H_
#define SCD_COMMON_MODEL_STORED_WEIGHTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model/weight_store.h"

namespace scd {

struct StoredTensor {
  std::string type;  // "f32", "bf16", "q4_1" ...
  Shape shape;
  absl::Span<const std::byte> bytes;  // in the mapping, in the file's own order of rows
};

class StoredWeights : public WeightStore {
 public:
  // As Load, before any conversion.
  virtual absl::StatusOr<StoredTensor> Stored(WeightKind kind, std::int64_t layer) const = 0;
};

// INVALID_ARGUMENT ("<file>: <tensor>: ...") where a number of a contiguous tensor of floats is NaN or
// infinite. Looked at once, as a weight is loaded: one such number would spread through everything that is
// computed from it.
absl::Status CheckFinite(const ConstTensorView& view, absl::string_view file, absl::string_view tensor);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_STORED_WEIGHTS_H_
