// One or several of a model's matrices that are multiplied with one x (Q, K and V; gate and up), packed as
// one weight in the format that was asked for, with what an adapter adds where it is not merged.
#ifndef SCD_COMMON_MODEL_LINEAR_H_
#define SCD_COMMON_MODEL_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/config/model_config.h"
#include "common/model/low_rank_update.h"
#include "common/model/weight_store.h"
#include "common/model/weights_format.h"
#include "kernels/backend.h"
#include "kernels/weight_part.h"

namespace scd {

class Linear {
 public:
  Linear() = default;
  // `widths`: rows of each matrix; `updates` may be nullptr.
  Linear(std::unique_ptr<PackedWeight> packed, absl::Span<const std::int64_t> widths,
         std::unique_ptr<LowRankUpdates> updates);

  // All matrices side by side, and one of them.
  const WeightPart& all() const { return all_; }
  const WeightPart& part(std::size_t matrix) const { return parts_[matrix]; }

  std::int64_t size_bytes() const;

 private:
  std::unique_ptr<PackedWeight> packed_;
  std::unique_ptr<LowRankUpdates> updates_;
  WeightPart all_;
  std::vector<WeightPart> parts_;
};

struct LinearMatrix {
  WeightKind kind;
  std::optional<WeightKind> bias;
};

// Loads Linears of one model.
class LinearLoader {
 public:
  // All outlive this.
  LinearLoader(const ModelConfig& config, const WeightStore& store, Backend& backend, WeightsFormat format)
      : config_(config), store_(store), backend_(backend), format_(format) {}

  // INVALID_ARGUMENT naming layer and weight for a shape other than the config's, or one that the format
  // cannot hold; else what the store and the backend answer.
  absl::StatusOr<Linear> Load(std::int64_t layer, absl::Span<const LinearMatrix> matrices);
  // A matrix that is there already as blocks, with nothing beside it.
  absl::StatusOr<Linear> Pack(const StoredBlocks& blocks);

  absl::StatusOr<HostTensor> LoadChecked(WeightKind kind, std::int64_t layer) const;
  // The blocks of the file; absent where there are none.
  absl::StatusOr<std::optional<StoredBlocks>> LoadBlocks(WeightKind kind, std::int64_t layer) const;

  // How the matrices that were loaded are kept: "dense", "int8", or "q4_1", "q8_0" ..., "adapter apart".
  const std::set<std::string>& formats() const { return formats_; }

 private:
  absl::Status CheckShape(WeightKind kind, std::int64_t layer, const Shape& shape) const;
  absl::StatusOr<HostTensor> Checked(WeightKind kind, std::int64_t layer,
                                     absl::StatusOr<HostTensor> tensor) const;
  // As the format keeps it; absent where that is dense.
  absl::StatusOr<std::optional<StoredBlocks>> Quantised(WeightKind kind, std::int64_t layer) const;
  // Absent where not every matrix is quantised.
  absl::StatusOr<std::optional<Linear>> LoadQuantised(std::int64_t layer,
                                                      absl::Span<const LinearMatrix> matrices,
                                                      const std::vector<float>& bias,
                                                      absl::Span<const std::int64_t> widths);
  absl::StatusOr<std::vector<float>> LoadBias(std::int64_t layer,
                                              absl::Span<const LinearMatrix> matrices) const;

  const ModelConfig& config_;
  const WeightStore& store_;
  Backend& backend_;
  const WeightsFormat format_;
  std::set<std::string> formats_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_LINEAR_H_
