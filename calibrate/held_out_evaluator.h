// Measures what the consumer would answer on held-out prefixes with any layer's state taken from Reuse, from
// Patch, from the producer as it is or from its own native prefill, or with a group of layers recomputed from
// the producer's residual stream. Codes, rebuilding and decoding are those that serve; raw state is not
// rounded to a codec.
//
// Of each prefix the last tokens are scored: the positions before them are the prompt, whose native head,
// native tail and last token the consumer computes itself, and the scored tokens are teacher-forced over that
// state.
#ifndef SCD_CALIBRATE_HELD_OUT_EVALUATOR_H_
#define SCD_CALIBRATE_HELD_OUT_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "calibrate/pair_runner.h"
#include "calibrate/trace_store.h"
#include "common/bundle/bundle.h"
#include "common/cache/paged_kv_cache.h"
#include "common/config/layer_plan.h"
#include "common/model/transformer.h"

namespace scd {

// Where one layer's K and V of the transferred positions come from.
enum class StateSource : std::uint8_t {
  kNone,
  kOracle,  // the consumer's native prefill
  kReuse,
  kPatch,
  kRaw,  // the producer's K, roped by the consumer, and V
};

struct HeldOutScore {
  double kl = 0;   // KL(oracle || this), nats, mean over scored positions, then over prefixes
  double ppl = 0;  // of the scored tokens
};

// What a plan's codes make of it.
struct PlanScore {
  HeldOutScore quality;
  double bytes_per_token = 0;  // of codes
};

struct EvaluatorOptions {
  std::int64_t native_head = 1;
  std::int64_t native_tail = 16;
  std::int64_t scored_tokens = 32;  // fewer of prefixes that are too short for so many
  std::int64_t max_prefixes = 5;    // the first held-out ones that are long enough
};

class HeldOutEvaluator {
 public:
  // All outlive this. FAILED_PRECONDITION where no held-out prefix is long enough. Runs the oracle.
  static absl::StatusOr<std::unique_ptr<HeldOutEvaluator>> Create(const Transformer& consumer,
                                                                  const TraceStore& store,
                                                                  const Prefixes& prefixes,
                                                                  const EvaluatorOptions& options,
                                                                  std::stop_token stop);
  ~HeldOutEvaluator();

  std::int64_t num_prefixes() const { return static_cast<std::int64_t>(items_.size()); }
  double oracle_ppl() const { return oracle_ppl_; }

  // Encodes the transferred positions with this bundle at its default ranks: Reuse of every layer, Patch of
  // every candidate. The bundle may go away afterwards.
  absl::Status UseBundle(const Bundle& bundle);

  // sources: one for each layer; kReuse and kPatch need UseBundle. CANCELLED when the run is stopped.
  absl::StatusOr<HeldOutScore> Score(const std::vector<StateSource>& sources);

  // Score where `layers` come from `source` and all others from Reuse.
  absl::StatusOr<HeldOutScore> ScoreWith(absl::Span<const std::int64_t> layers, StateSource source);

  // Score of a plan of codes that this bundle serves, with the payloads that would be sent.
  absl::StatusOr<PlanScore> ScorePlan(const Bundle& bundle, const LayerPlan& plan);

  // Runs the producer on the prefixes and keeps the residual stream that enters these layers, in memory.
  absl::Status KeepResiduals(const Transformer& producer, absl::Span<const std::int64_t> layers);

  // Score where every layer is raw but those of the group, which the consumer runs itself, from the
  // producer's residual stream at the first of them on: FAILED_PRECONDITION unless KeepResiduals kept that.
  absl::StatusOr<HeldOutScore> ScoreSelective(std::optional<LayerRange> recomputed);

 private:
  struct Item;    // one prefix
  struct Coding;  // rebuilders of the bundle in use

  HeldOutEvaluator(const Transformer& consumer, const TraceStore& store, const EvaluatorOptions& options,
                   std::stop_token stop);
  absl::Status Init(const Prefixes& prefixes);
  absl::Status AddItem(const Prefixes& prefixes, std::int64_t prefix);
  absl::Status RunHeads();
  // [rows, width] of the item's transferred positions, on the device.
  absl::StatusOr<ConstTensorView> LoadRows(const Item& item, std::int64_t layer, CodeKind kind,
                                           PairSide side);
  absl::Status WriteLayer(Item& item, std::int64_t layer, StateSource source);
  // K, roped by the consumer, and V of one model.
  absl::Status WriteKv(Item& item, std::int64_t layer, PairSide side);
  absl::Status Recompute(Item& item, const LayerRange& group);
  // Score of what the pages hold.
  absl::StatusOr<HeldOutScore> ScorePages();
  // Runs the scored positions of all items; on_logits(item, logits [rows, vocabulary]) for each.
  template <typename OnLogits>
  absl::Status ForwardScored(OnLogits on_logits);

  const Transformer& consumer_;
  const TraceStore& store_;
  const EvaluatorOptions options_;
  const std::stop_token stop_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::unique_ptr<Buffer> rows_;       // device memory of LoadRows
  std::unique_ptr<Buffer> positions_;  // [transferred positions] i32 on the device
  std::unique_ptr<Coding> coding_;
  std::vector<std::unique_ptr<Item>> items_;
  double oracle_ppl_ = 0;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_HELD_OUT_EVALUATOR_H_
