#include "calibrate/held_out_evaluator.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "calibrate/divergence.h"
#include "calibrate/held_out_item.h"
#include "common/cache/sequence.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 16;
constexpr std::int64_t kPassRows =
    256;  // of all prefixes that are scored in one pass, if one alone has no more

}  // namespace

HeldOutEvaluator::HeldOutEvaluator(const Transformer& consumer, const TraceStore& store,
                                   const EvaluatorOptions& options, std::stop_token stop)
    : consumer_(consumer), store_(store), options_(options), stop_(std::move(stop)) {}

HeldOutEvaluator::~HeldOutEvaluator() = default;

absl::StatusOr<std::unique_ptr<HeldOutEvaluator>> HeldOutEvaluator::Create(const Transformer& consumer,
                                                                           const TraceStore& store,
                                                                           const Prefixes& prefixes,
                                                                           const EvaluatorOptions& options,
                                                                           std::stop_token stop) {
  auto evaluator = absl::WrapUnique(new HeldOutEvaluator(consumer, store, options, std::move(stop)));
  SCD_RETURN_IF_ERROR(evaluator->Init(prefixes));
  return evaluator;
}

absl::Status HeldOutEvaluator::AddItem(const Prefixes& prefixes, std::int64_t prefix) {
  auto item = std::make_unique<Item>();
  item->prefix = prefix;
  item->ids = prefixes[static_cast<std::size_t>(prefix)];
  const auto length = static_cast<std::int64_t>(item->ids.size());
  const std::int64_t spare = length - options_.native_head - options_.native_tail - 1;
  const std::int64_t scored = std::min(options_.scored_tokens, spare / 2);
  if (scored < 1) return absl::OkStatus();
  item->first_scored = length - scored - 1;
  item->begin = options_.native_head;
  item->end = item->first_scored - options_.native_tail;
  item->sources.assign(static_cast<std::size_t>(store_.shape().num_layers), StateSource::kNone);
  items_.push_back(std::move(item));
  return absl::OkStatus();
}

absl::Status HeldOutEvaluator::Init(const Prefixes& prefixes) {
  std::set<std::int64_t> held_out;
  for (const TracePiece& piece : store_.pieces()) {
    if (piece.held_out) held_out.insert(piece.prefix);
  }
  for (const std::int64_t prefix : held_out) {
    if (num_prefixes() < options_.max_prefixes) SCD_RETURN_IF_ERROR(AddItem(prefixes, prefix));
  }
  if (items_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no held-out prefix is long enough to measure on: with native_head ",
                     options_.native_head, " and native_tail ", options_.native_tail, " one needs at least ",
                     options_.native_head + options_.native_tail + 3, " tokens"));
  }

  const ModelConfig& config = consumer_.config();
  Backend& backend = consumer_.backend();
  std::int64_t pages = 0, most_transferred = 0, most_rows = kPassRows;
  for (const auto& item : items_) {
    pages += (static_cast<std::int64_t>(item->ids.size()) + kPageTokens - 1) / kPageTokens;
    most_transferred = std::max(most_transferred, item->transferred());
    most_rows = std::max({most_rows, item->native_rows(), item->begin});
  }
  SCD_ASSIGN_OR_RETURN(cache_, PagedKvCache::Create(backend,
                                                    {.num_layers = config.num_layers,
                                                     .num_kv_heads = config.num_kv_heads,
                                                     .head_dim = config.head_dim,
                                                     .page_tokens = kPageTokens},
                                                    pages));
  SCD_ASSIGN_OR_RETURN(workspace_, consumer_.CreateWorkspace(most_rows, most_rows));
  const std::int64_t width = std::max(config.hidden_size, config.d_kv());
  SCD_ASSIGN_OR_RETURN(rows_,
                       backend.Allocate(MemoryKind::kDevice,
                                        static_cast<std::size_t>(most_transferred * width) * sizeof(float)));
  SCD_ASSIGN_OR_RETURN(positions_,
                       backend.Allocate(MemoryKind::kDevice,
                                        static_cast<std::size_t>(most_transferred) * sizeof(std::int32_t)));
  for (const auto& item : items_) {
    SCD_ASSIGN_OR_RETURN(item->sequence,
                         Sequence::Create(*cache_, static_cast<std::int64_t>(item->ids.size())));
  }
  SCD_RETURN_IF_ERROR(RunHeads());

  // The oracle: every layer native.
  for (const auto& item : items_) {
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
      SCD_RETURN_IF_ERROR(WriteLayer(*item, layer, StateSource::kOracle));
    }
    SCD_RETURN_IF_ERROR(item->sequence->MarkValid(item->begin, item->end));
  }
  SCD_RETURN_IF_ERROR(ForwardScored([](Item& item, ConstTensorView logits) {
    const auto vocabulary = static_cast<std::size_t>(logits.dim(1));
    item.oracle.resize(static_cast<std::size_t>(logits.dim(0)) * vocabulary);
    for (std::int64_t r = 0; r < logits.dim(0); ++r) {
      LogSoftmax({logits.row<float>(r), vocabulary},
                 absl::MakeSpan(item.oracle).subspan(static_cast<std::size_t>(r) * vocabulary, vocabulary));
    }
  }));
  SCD_ASSIGN_OR_RETURN(
      const HeldOutScore oracle,
      Score(std::vector<StateSource>(static_cast<std::size_t>(config.num_layers), StateSource::kOracle)));
  oracle_ppl_ = oracle.ppl;
  return absl::OkStatus();
}

absl::Status HeldOutEvaluator::RunHeads() {
  for (const auto& item : items_) {
    if (item->begin == 0) continue;
    const ForwardChunk head{.sequence = item->sequence.get(),
                            .tokens = item->ids.first(static_cast<std::size_t>(item->begin)),
                            .first_position = 0,
                            .logits = LogitsWanted::kNone};
    SCD_RETURN_IF_ERROR(consumer_.Forward(*workspace_, {&head, 1}, {.tap = nullptr, .cancel = stop_}));
  }
  return absl::OkStatus();
}

template <typename OnLogits>
absl::Status HeldOutEvaluator::ForwardScored(OnLogits on_logits) {
  std::size_t next = 0;
  while (next < items_.size()) {
    std::vector<ForwardChunk> chunks;
    std::int64_t rows = 0;
    const std::size_t first = next;
    while (next < items_.size() && rows + items_[next]->native_rows() <= workspace_->max_rows()) {
      const Item& item = *items_[next++];
      rows += item.native_rows();
      chunks.push_back({.sequence = item.sequence.get(),
                        .tokens = item.ids.subspan(static_cast<std::size_t>(item.end)),
                        .first_position = item.end,
                        .logits = LogitsWanted::kAll});
    }
    SCD_RETURN_IF_ERROR(consumer_.Forward(*workspace_, chunks, {.tap = nullptr, .cancel = stop_}));
    std::int64_t row = 0;
    for (std::size_t i = first; i < next; ++i) {
      Item& item = *items_[i];
      const std::int64_t unscored = item.native_rows() - item.scored_rows();
      on_logits(item, workspace_->logits().rows(row + unscored, item.scored_rows()));
      row += item.native_rows();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HeldOutScore> HeldOutEvaluator::Score(const std::vector<StateSource>& sources) {
  for (const auto& item : items_) {
    for (std::size_t layer = 0; layer < sources.size(); ++layer) {
      SCD_RETURN_IF_ERROR(WriteLayer(*item, static_cast<std::int64_t>(layer), sources[layer]));
    }
  }
  return ScorePages();
}

absl::StatusOr<HeldOutScore> HeldOutEvaluator::ScoreSelective(std::optional<LayerRange> recomputed) {
  for (const auto& item : items_) {
    for (std::int64_t layer = 0; layer < store_.shape().num_layers; ++layer) {
      if (recomputed && recomputed->first <= layer && layer <= recomputed->last) continue;
      SCD_RETURN_IF_ERROR(WriteLayer(*item, layer, StateSource::kRaw));
    }
    if (recomputed) SCD_RETURN_IF_ERROR(Recompute(*item, *recomputed));
  }
  return ScorePages();
}

absl::StatusOr<HeldOutScore> HeldOutEvaluator::ScorePages() {
  double kl_sum = 0, nll_sum = 0;
  std::int64_t num_tokens = 0;
  std::vector<float> log_probs;
  SCD_RETURN_IF_ERROR(ForwardScored([&](Item& item, ConstTensorView logits) {
    const auto vocabulary = static_cast<std::size_t>(logits.dim(1));
    log_probs.resize(vocabulary);
    double kl = 0;
    for (std::int64_t r = 0; r < logits.dim(0); ++r) {
      LogSoftmax({logits.row<float>(r), vocabulary}, absl::MakeSpan(log_probs));
      kl += KlDivergence(
          absl::MakeConstSpan(item.oracle).subspan(static_cast<std::size_t>(r) * vocabulary, vocabulary),
          log_probs);
      const std::int64_t next = item.first_scored + r + 1;
      if (next >= static_cast<std::int64_t>(item.ids.size())) continue;
      nll_sum -= log_probs[static_cast<std::size_t>(item.ids[static_cast<std::size_t>(next)])];
      ++num_tokens;
    }
    kl_sum += kl / static_cast<double>(logits.dim(0));
  }));
  return HeldOutScore{.kl = kl_sum / static_cast<double>(items_.size()),
                      .ppl = std::exp(nll_sum / static_cast<double>(num_tokens))};
}

absl::StatusOr<HeldOutScore> HeldOutEvaluator::ScoreWith(absl::Span<const std::int64_t> layers,
                                                         StateSource source) {
  std::vector<StateSource> sources(static_cast<std::size_t>(store_.shape().num_layers), StateSource::kReuse);
  for (const std::int64_t layer : layers) sources[static_cast<std::size_t>(layer)] = source;
  return Score(sources);
}

}  // namespace scd
