#include "eval/drift/drift_probe.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/cache/paged_kv_cache.h"
#include "common/cache/sequence.h"
#include "eval/drift/drift_taps.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 32;

using ResidualStream = std::vector<std::vector<float>>;  // [layers + 1] of [rows, hidden]

absl::Status CheckPlans(absl::Span<const LayerPlan> plans) {
  if (plans.empty()) return absl::InvalidArgumentError("drift: no plans");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (const LayerRanks& layer : plans[i].layers) {
      if (layer.treatment != LayerTreatment::kReuse && layer.treatment != LayerTreatment::kPatch) {
        return absl::InvalidArgumentError(
            absl::StrCat("drift: plan ", i, " (", plans[i].ToString(), ") is not of Reuse and Patch alone"));
      }
    }
    if (plans[i].native_head != plans[0].native_head || plans[i].native_tail != plans[0].native_tail) {
      return absl::InvalidArgumentError(absl::StrCat("drift: plan ", i, " (", plans[i].ToString(),
                                                     ") has other native ranges than the first (",
                                                     plans[0].ToString(), ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const Bundle& bundle, const Transformer& model, const char* name) {
  const BundleManifest& m = bundle.manifest();
  const ModelConfig& c = model.config();
  if (c.num_layers == m.num_layers && c.hidden_size == m.hidden_size && c.num_kv_heads == m.num_kv_heads &&
      c.head_dim == m.head_dim) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("drift: the ", name, " has another shape than the models of ", bundle.folder()));
}

absl::StatusOr<std::unique_ptr<PagedKvCache>> MakeCache(const Transformer& model, std::int64_t max_tokens,
                                                        std::int64_t num_sequences) {
  const ModelConfig& c = model.config();
  const std::int64_t pages = (max_tokens + kPageTokens - 1) / kPageTokens;
  return PagedKvCache::Create(model.backend(),
                              {.num_layers = c.num_layers,
                               .num_kv_heads = c.num_kv_heads,
                               .head_dim = c.head_dim,
                               .page_tokens = kPageTokens},
                              pages * num_sequences);
}

class Probe final : public DriftProbe {
 public:
  Probe(const Transformer& producer, const Transformer& consumer, const DriftLimits& limits,
        std::vector<std::int32_t> untranslatable_ids)
      : producer_(producer),
        consumer_(consumer),
        limits_(limits),
        untranslatable_ids_(std::move(untranslatable_ids)) {}

  absl::Status Init(const Bundle& bundle, absl::Span<const LayerPlan> plans);
  absl::StatusOr<std::vector<DriftSums>> Measure(absl::Span<const std::int32_t> prompt,
                                                 absl::Span<const std::int32_t> continuation,
                                                 std::stop_token stop) override;

 private:
  // One prompt with its continuation.
  struct Item {
    std::vector<std::int32_t> tokens;
    std::int64_t begin = 0;  // positions [begin, end) are transferred
    std::int64_t end = 0;
    std::unique_ptr<Sequence> produced;
    std::unique_ptr<Sequence> native;
    std::stop_token stop;

    absl::Span<const std::int32_t> Tokens(std::int64_t first, std::int64_t last) const {
      return absl::MakeConstSpan(tokens).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(last - first));
    }
    std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens.size()) - end; }
  };

  absl::StatusOr<Item> MakeItem(absl::Span<const std::int32_t> prompt,
                                absl::Span<const std::int32_t> continuation, std::stop_token stop);
  // K and V of positions [0, end): native, and rebuilt by every plan with the errors of it.
  absl::Status Transfer(Item& item);
  // What the rows from `end` on see on their way through all layers.
  absl::StatusOr<ResidualStream> RunRows(const Item& item, Sequence& sequence);
  // The same rows through one layer.
  absl::StatusOr<std::vector<float>> RunLayer(const Item& item, Sequence& sequence, std::int64_t layer,
                                              const std::vector<float>& in);
  absl::Status CompareRows(const Item& item, const ResidualStream& native, PlanRun& run);
  // The decode positions among the rows.
  absl::Span<const float> Decoded(const std::vector<float>& rows) const {
    const std::int64_t tail = runs_.front().plan.native_tail;
    return absl::MakeConstSpan(rows).subspan(static_cast<std::size_t>(tail * consumer_.config().hidden_size));
  }

  const Transformer& producer_;
  const Transformer& consumer_;
  const DriftLimits limits_;
  const std::vector<std::int32_t> untranslatable_ids_;  // sorted
  std::unique_ptr<PagedKvCache> producer_cache_;
  std::unique_ptr<PagedKvCache> consumer_cache_;
  std::unique_ptr<Transformer::Workspace> producer_workspace_;
  std::unique_ptr<Transformer::Workspace> consumer_workspace_;
  std::vector<PlanRun> runs_;
};

absl::Status Probe::Init(const Bundle& bundle, absl::Span<const LayerPlan> plans) {
  const auto num_plans = static_cast<std::int64_t>(plans.size());
  const std::int64_t max_tokens = limits_.max_prompt_tokens + limits_.max_continuation_tokens;
  const std::int64_t pass_rows = std::min(limits_.pass_tokens, limits_.max_prompt_tokens);
  const std::int64_t rows = plans.front().native_tail + 1 + limits_.max_continuation_tokens;
  SCD_ASSIGN_OR_RETURN(producer_cache_, MakeCache(producer_, limits_.max_prompt_tokens, 1));
  SCD_ASSIGN_OR_RETURN(consumer_cache_, MakeCache(consumer_, max_tokens, 1 + num_plans));
  SCD_ASSIGN_OR_RETURN(producer_workspace_, producer_.CreateWorkspace(pass_rows, 0));
  SCD_ASSIGN_OR_RETURN(consumer_workspace_, consumer_.CreateWorkspace(std::max(pass_rows, rows), 0));
  for (const LayerPlan& plan : plans) {
    SCD_ASSIGN_OR_RETURN(PlanRun run, PlanRun::Create(producer_, consumer_, bundle, plan, pass_rows));
    runs_.push_back(std::move(run));
  }
  return absl::OkStatus();
}

absl::StatusOr<Probe::Item> Probe::MakeItem(absl::Span<const std::int32_t> prompt,
                                            absl::Span<const std::int32_t> continuation,
                                            std::stop_token stop) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  const auto following = static_cast<std::int64_t>(continuation.size());
  if (length > limits_.max_prompt_tokens || following > limits_.max_continuation_tokens) {
    return absl::OutOfRangeError(absl::StrCat("drift: ", length, " tokens of prompt and ", following,
                                              " after it, the limits are ", limits_.max_prompt_tokens,
                                              " and ", limits_.max_continuation_tokens));
  }
  const LayerPlan& plan = runs_.front().plan;
  Item item;
  item.begin = plan.native_head;
  item.end = length - 1 - plan.native_tail;
  if (item.end <= item.begin) {
    return absl::InvalidArgumentError(absl::StrCat("drift: a prompt of ", length,
                                                   " tokens leaves nothing to transfer (native head ",
                                                   plan.native_head, ", tail ", plan.native_tail, ")"));
  }
  for (std::int64_t i = 0; i < item.end; ++i) {
    const std::int32_t id = prompt[static_cast<std::size_t>(i)];
    if (id >= producer_.config().vocab_size ||
        std::binary_search(untranslatable_ids_.begin(), untranslatable_ids_.end(), id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("drift: token ", i, " of the prompt, id ", id, ", is not one of both models"));
    }
  }
  item.tokens.assign(prompt.begin(), prompt.end());
  item.tokens.insert(item.tokens.end(), continuation.begin(), continuation.end());
  item.stop = std::move(stop);
  SCD_ASSIGN_OR_RETURN(item.produced, Sequence::Create(*producer_cache_, item.end));
  SCD_ASSIGN_OR_RETURN(item.native, Sequence::Create(*consumer_cache_, length + following));
  for (PlanRun& run : runs_) {
    SCD_ASSIGN_OR_RETURN(run.rebuilt, Sequence::Create(*consumer_cache_, length + following));
    run.sums = DriftSums(consumer_.config().num_layers);
  }
  return item;
}

absl::Status Probe::Transfer(Item& item) {
  for (std::int64_t first = 0; first < item.end; first += producer_workspace_->max_rows()) {
    const std::int64_t last = std::min(first + producer_workspace_->max_rows(), item.end);
    const std::int64_t transferred = std::max(first, item.begin);
    const TransferredRows rows{.first_row = transferred - first,
                               .count = std::max<std::int64_t>(last - transferred, 0),
                               .first_position = transferred};
    CodingTap coding(runs_, rows);
    const ForwardChunk produced{item.produced.get(), item.Tokens(first, last), first, LogitsWanted::kNone};
    SCD_RETURN_IF_ERROR(
        producer_.Forward(*producer_workspace_, {&produced, 1}, {.tap = &coding, .cancel = item.stop}));
    ComparingTap comparing(consumer_.backend(), runs_, rows);
    const ForwardChunk native{item.native.get(), item.Tokens(first, last), first, LogitsWanted::kNone};
    SCD_RETURN_IF_ERROR(
        consumer_.Forward(*consumer_workspace_, {&native, 1}, {.tap = &comparing, .cancel = item.stop}));
  }
  for (const PlanRun& run : runs_) {
    for (std::int64_t first = 0; first < item.begin; first += consumer_workspace_->max_rows()) {
      const std::int64_t last = std::min(first + consumer_workspace_->max_rows(), item.begin);
      const ForwardChunk head{run.rebuilt.get(), item.Tokens(first, last), first, LogitsWanted::kNone};
      SCD_RETURN_IF_ERROR(consumer_.Forward(*consumer_workspace_, {&head, 1}, {.cancel = item.stop}));
    }
    SCD_RETURN_IF_ERROR(run.rebuilt->MarkValid(item.begin, item.end));
  }
  return absl::OkStatus();
}

absl::StatusOr<ResidualStream> Probe::RunRows(const Item& item, Sequence& sequence) {
  ResidualTap tap(consumer_.backend());
  const auto tokens = item.Tokens(item.end, static_cast<std::int64_t>(item.tokens.size()));
  const ForwardChunk chunk{&sequence, tokens, item.end, LogitsWanted::kNone};
  SCD_RETURN_IF_ERROR(
      consumer_.Forward(*consumer_workspace_, {&chunk, 1}, {.tap = &tap, .cancel = item.stop}));
  SCD_ASSIGN_OR_RETURN(std::vector<float> leaving,
                       RunLayer(item, sequence, consumer_.config().num_layers - 1, tap.entering.back()));
  tap.entering.push_back(std::move(leaving));
  return std::move(tap.entering);
}

absl::StatusOr<std::vector<float>> Probe::RunLayer(const Item& item, Sequence& sequence, std::int64_t layer,
                                                   const std::vector<float>& in) {
  std::vector<float> out(in.size());
  const Shape shape{item.num_rows(), consumer_.config().hidden_size};
  const LayerChunk chunk{.sequence = &sequence,
                         .residual = ConstTensorView(in.data(), DType::kF32, shape),
                         .first_position = item.end,
                         .first_layer = layer,
                         .last_layer = layer,
                         .residual_out = TensorView(out.data(), DType::kF32, shape)};
  SCD_RETURN_IF_ERROR(consumer_.ForwardLayers(*consumer_workspace_, chunk, {.cancel = item.stop}));
  return out;
}

// A layer's run alone overwrites the rows' own K and V in that layer and nothing else, and every run begins
// with writing them: the prefix stays native or rebuilt whatever ran before.
absl::Status Probe::CompareRows(const Item& item, const ResidualStream& native, PlanRun& run) {
  SCD_ASSIGN_OR_RETURN(const ResidualStream actual, RunRows(item, *run.rebuilt));
  for (std::size_t l = 0; l < native.size(); ++l) {
    run.sums.hidden[l].Add(Decoded(actual[l]), Decoded(native[l]));
  }
  for (std::size_t l = 0; l + 1 < native.size(); ++l) {
    const auto layer = static_cast<std::int64_t>(l);
    SCD_ASSIGN_OR_RETURN(const std::vector<float> from_input, RunLayer(item, *item.native, layer, actual[l]));
    run.sums.from_input[l].Add(Decoded(from_input), Decoded(native[l + 1]));
    SCD_ASSIGN_OR_RETURN(const std::vector<float> from_kv, RunLayer(item, *run.rebuilt, layer, native[l]));
    run.sums.from_kv[l].Add(Decoded(from_kv), Decoded(native[l + 1]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<DriftSums>> Probe::Measure(absl::Span<const std::int32_t> prompt,
                                                      absl::Span<const std::int32_t> continuation,
                                                      std::stop_token stop) {
  for (PlanRun& run : runs_) run.rebuilt.reset();
  SCD_ASSIGN_OR_RETURN(Item item, MakeItem(prompt, continuation, std::move(stop)));
  SCD_RETURN_IF_ERROR(Transfer(item));
  SCD_ASSIGN_OR_RETURN(const ResidualStream native, RunRows(item, *item.native));
  std::vector<DriftSums> sums;
  for (PlanRun& run : runs_) {
    SCD_RETURN_IF_ERROR(CompareRows(item, native, run));
    sums.push_back(run.sums);
  }
  return sums;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DriftProbe>> DriftProbe::Create(const Transformer& producer,
                                                               const Transformer& consumer,
                                                               const Bundle& bundle,
                                                               absl::Span<const LayerPlan> plans,
                                                               const DriftLimits& limits) {
  SCD_RETURN_IF_ERROR(CheckPlans(plans));
  SCD_RETURN_IF_ERROR(CheckModel(bundle, producer, "producer"));
  SCD_RETURN_IF_ERROR(CheckModel(bundle, consumer, "consumer"));
  if (limits.max_prompt_tokens < 1 || limits.max_prompt_tokens > consumer.max_positions() ||
      limits.max_continuation_tokens < 0 ||
      limits.max_continuation_tokens > consumer.max_positions() - limits.max_prompt_tokens) {
    return absl::OutOfRangeError(absl::StrCat("drift: ", limits.max_prompt_tokens, " tokens of prompt and ",
                                              limits.max_continuation_tokens,
                                              " after it, the consumer holds ", consumer.max_positions()));
  }
  if (limits.pass_tokens < 1) {
    return absl::OutOfRangeError(
        absl::StrCat("drift: ", limits.pass_tokens, " tokens in a pass, expected at least 1"));
  }
  auto probe = std::make_unique<Probe>(producer, consumer, limits, bundle.manifest().untranslatable_ids);
  SCD_RETURN_IF_ERROR(probe->Init(bundle, plans));
  return probe;
}

}  // namespace scd
