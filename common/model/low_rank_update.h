// What LoRA adapters add to the product of one or several matrices that are packed as one weight, where they
// are not merged: (x A^T) B^T for each.
#ifndef SCD_COMMON_MODEL_LOW_RANK_UPDATE_H_
#define SCD_COMMON_MODEL_LOW_RANK_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/weight_store.h"
#include "kernels/backend.h"
#include "kernels/weight_part.h"

namespace scd {

// The adapters of consecutive matrices that share x. Their A are stacked and packed as one weight, so that
// they read x once, and kept in 8 bits like their B: an adapter's part of the result is small, so is what
// rounding does to it. Immutable.
class LowRankUpdates {
 public:
  // One entry for each matrix, absent where it has no adapter; widths are the matrices' numbers of rows.
  // in_features is a multiple of kWeightGroup. nullptr where no matrix has one.
  static absl::StatusOr<std::unique_ptr<LowRankUpdates>> Create(
      Backend& backend, std::int64_t in_features, absl::Span<const std::int64_t> widths,
      absl::Span<const std::optional<LowRankMatrices>> adapters);
  ~LowRankUpdates();

  // What is added to the columns of all matrices, and to those of one (nullptr: nothing). Live as long as
  // this.
  const ProductUpdate* all() const { return all_.get(); }
  const ProductUpdate* of(std::size_t matrix) const { return single_[matrix].get(); }
  std::int64_t size_bytes() const;

 private:
  class Update;
  struct Part {
    std::int64_t column = 0;  // of the product's result where its matrix begins
    std::int64_t width = 0;
    ColumnRange latent;  // rows of the stacked A
    std::unique_ptr<PackedWeight> b;
  };

  LowRankUpdates() = default;

  std::unique_ptr<PackedWeight> a_;
  std::vector<Part> parts_;  // of the matrices that have an adapter
  std::unique_ptr<ProductUpdate> all_;
  std::vector<std::unique_ptr<ProductUpdate>> single_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_LOW_RANK_UPDATE_H_
