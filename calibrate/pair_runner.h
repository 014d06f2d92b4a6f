// Runs both models of the pair over the same prefixes and shows their rows side by side.
#ifndef SCD_CALIBRATE_PAIR_RUNNER_H_
#define SCD_CALIBRATE_PAIR_RUNNER_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/trace_tap.h"
#include "common/cache/paged_kv_cache.h"
#include "common/model/transformer.h"

namespace scd {

using Prefixes = std::vector<std::vector<std::int32_t>>;

// Prefixes [begin, end) that run together: either as many as fit into one pass, or one that needs several.
struct TraceGroup {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
std::vector<TraceGroup> PlanTraceGroups(const Prefixes& prefixes, std::int64_t pass_tokens);

// Rows [first_row, first_row + rows) of a pass are positions first_position ... of this prefix.
struct PassChunk {
  std::int64_t prefix = 0;
  std::int64_t first_position = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

class PairRunner {
 public:
  // The transformers and the prefixes outlive this.
  static absl::StatusOr<std::unique_ptr<PairRunner>> Create(const Transformer& producer,
                                                            const Transformer& consumer,
                                                            const TraceShape& shape, const Prefixes& prefixes,
                                                            std::int64_t pass_tokens);

  const std::vector<TraceGroup>& groups() const { return groups_; }

  using PassSink = absl::FunctionRef<absl::Status(absl::Span<const PassChunk> chunks,
                                                  const TraceTap& producer, const TraceTap& consumer)>;
  // on_pass is called after each pass, when both models have run it. CANCELLED when `cancel` is set.
  absl::Status Run(const TraceGroup& group, std::stop_token cancel, PassSink on_pass);

  // Forward passes run so far, of both models.
  std::int64_t num_forward_passes() const { return num_forward_passes_; }

 private:
  // One model; `sequences` are those of the group that runs.
  struct Side {
    const Transformer* model = nullptr;
    std::unique_ptr<PagedKvCache> cache;
    std::unique_ptr<Transformer::Workspace> workspace;
    std::unique_ptr<TraceTap> tap;
    std::vector<std::unique_ptr<Sequence>> sequences;
  };
  PairRunner(const Prefixes& prefixes, std::int64_t pass_tokens);
  absl::Status InitSide(const Transformer& model, const TraceShape& shape, Side& side) const;
  absl::Status StartGroup(const TraceGroup& group, Side& side) const;
  absl::Status Forward(Side& side, const TraceGroup& group, absl::Span<const PassChunk> chunks,
                       const std::stop_token& cancel);

  const Prefixes& prefixes_;
  const std::int64_t pass_tokens_;
  const std::vector<TraceGroup> groups_;
  Side producer_;
  Side consumer_;
  std::int64_t num_forward_passes_ = 0;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_PAIR_RUNNER_H_
