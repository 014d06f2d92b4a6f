// A model with made-up weights on a backend, with pages for its sequences.
#ifndef SCD_BENCH_GPU_MODEL_RIG_H_
#define SCD_BENCH_GPU_MODEL_RIG_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/made_up_weights.h"
#include "bench/gpu/shape.h"
#include "common/cache/sequence.h"
#include "common/model/transformer.h"
#include "kernels/backend.h"

namespace scd {

class ModelRig {
 public:
  static constexpr std::int64_t kPageTokens = 32;

  // `backend`, `shape` and `numbers` outlive this.
  static absl::StatusOr<ModelRig> Create(Backend& backend, const BenchmarkShape& shape,
                                         const MadeUpNumbers& numbers);

  Backend& backend() const { return *backend_; }
  const BenchmarkShape& shape() const { return *shape_; }
  const Transformer& transformer() const { return *transformer_; }
  PagedKvCache& cache() const { return *cache_; }
  Transformer::Workspace& workspace() const { return *workspace_; }
  // Of the first `count` positions from `first` on.
  absl::Span<const std::int32_t> tokens(std::int64_t first, std::int64_t count) const;

  // Runs positions [begin, end) of `sequence` through the model in chunks; logits of the last where wanted.
  absl::Status Prefill(Sequence& sequence, std::int64_t begin, std::int64_t end, LogitsWanted logits,
                       const ForwardOptions& options = {}) const;

  // FLOP of a prefill of so many tokens: its layers' products, and attention's of what it may see.
  double PrefillFlop(std::int64_t tokens) const;
  // Of the layers' matrices, for one token.
  double LayersFlopPerToken() const;

 private:
  ModelRig() = default;

  Backend* backend_ = nullptr;
  const BenchmarkShape* shape_ = nullptr;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace scd

#endif  // SCD_BENCH_GPU_MODEL_RIG_H_
