#include "calibrate/pair_runner.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "common/cache/kv_cache_settings.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 16;

std::int64_t Length(const std::vector<std::int32_t>& ids) {
  return static_cast<std::int64_t>(ids.size());
}

const std::vector<std::int32_t>& At(const Prefixes& prefixes, std::int64_t i) {
  return prefixes[static_cast<std::size_t>(i)];
}

// The chunks of a group's next pass. Only a group of one prefix needs more than one pass; it goes on at
// `position`.
std::vector<PassChunk> NextPass(const Prefixes& prefixes, const TraceGroup& group, std::int64_t position,
                                std::int64_t pass_tokens) {
  std::vector<PassChunk> chunks;
  std::int64_t row = 0;
  for (std::int64_t p = group.begin; p < group.end; ++p) {
    const std::int64_t rows = std::min(pass_tokens, Length(At(prefixes, p)) - position);
    chunks.push_back({.prefix = p, .first_position = position, .first_row = row, .rows = rows});
    row += rows;
  }
  return chunks;
}

// The most pages that a group's sequences take.
std::int64_t MostPages(const Prefixes& prefixes, const std::vector<TraceGroup>& groups) {
  std::int64_t most = 1;
  for (const TraceGroup& group : groups) {
    std::int64_t pages = 0;
    for (std::int64_t p = group.begin; p < group.end; ++p) {
      pages += (Length(At(prefixes, p)) + kPageTokens - 1) / kPageTokens;
    }
    most = std::max(most, pages);
  }
  return most;
}

}  // namespace

std::vector<TraceGroup> PlanTraceGroups(const Prefixes& prefixes, std::int64_t pass_tokens) {
  std::vector<TraceGroup> groups;
  std::int64_t tokens = 0;
  for (std::int64_t p = 0; p < static_cast<std::int64_t>(prefixes.size()); ++p) {
    const std::int64_t length = Length(At(prefixes, p));
    if (groups.empty() || tokens + length > pass_tokens) {
      groups.push_back({.begin = p, .end = p});
      tokens = 0;
    }
    groups.back().end = p + 1;
    tokens += length;
  }
  return groups;
}

PairRunner::PairRunner(const Prefixes& prefixes, std::int64_t pass_tokens)
    : prefixes_(prefixes), pass_tokens_(pass_tokens), groups_(PlanTraceGroups(prefixes, pass_tokens)) {}

absl::StatusOr<std::unique_ptr<PairRunner>> PairRunner::Create(const Transformer& producer,
                                                               const Transformer& consumer,
                                                               const TraceShape& shape,
                                                               const Prefixes& prefixes,
                                                               std::int64_t pass_tokens) {
  auto runner = absl::WrapUnique(new PairRunner(prefixes, pass_tokens));
  SCD_RETURN_IF_ERROR(runner->InitSide(producer, shape, runner->producer_));
  SCD_RETURN_IF_ERROR(runner->InitSide(consumer, shape, runner->consumer_));
  return runner;
}

absl::Status PairRunner::InitSide(const Transformer& model, const TraceShape& shape, Side& side) const {
  side.model = &model;
  const KvLayout layout = LayoutFor({.page_tokens = kPageTokens}, model.config());
  SCD_ASSIGN_OR_RETURN(side.cache,
                       PagedKvCache::Create(model.backend(), layout, MostPages(prefixes_, groups_)));
  SCD_ASSIGN_OR_RETURN(side.workspace, model.CreateWorkspace(pass_tokens_, 0));
  SCD_ASSIGN_OR_RETURN(side.tap, TraceTap::Create(model.backend(), shape, pass_tokens_));
  return absl::OkStatus();
}

absl::Status PairRunner::StartGroup(const TraceGroup& group, Side& side) const {
  side.sequences.clear();
  for (std::int64_t p = group.begin; p < group.end; ++p) {
    SCD_ASSIGN_OR_RETURN(auto sequence, Sequence::Create(*side.cache, Length(At(prefixes_, p))));
    side.sequences.push_back(std::move(sequence));
  }
  return absl::OkStatus();
}

absl::Status PairRunner::Forward(Side& side, const TraceGroup& group, absl::Span<const PassChunk> chunks,
                                 const std::stop_token& cancel) {
  std::vector<ForwardChunk> forward;
  for (const PassChunk& chunk : chunks) {
    forward.push_back({.sequence = side.sequences[static_cast<std::size_t>(chunk.prefix - group.begin)].get(),
                       .tokens = absl::MakeConstSpan(At(prefixes_, chunk.prefix))
                                     .subspan(static_cast<std::size_t>(chunk.first_position),
                                              static_cast<std::size_t>(chunk.rows)),
                       .first_position = chunk.first_position,
                       .logits = LogitsWanted::kNone});
  }
  ++num_forward_passes_;
  return side.model->Forward(*side.workspace, forward, {.tap = side.tap.get(), .cancel = cancel});
}

absl::Status PairRunner::Run(const TraceGroup& group, std::stop_token cancel, PassSink on_pass) {
  SCD_RETURN_IF_ERROR(StartGroup(group, producer_));
  SCD_RETURN_IF_ERROR(StartGroup(group, consumer_));
  std::int64_t longest = 0;
  for (std::int64_t p = group.begin; p < group.end; ++p)
    longest = std::max(longest, Length(At(prefixes_, p)));
  for (std::int64_t position = 0; position < longest; position += pass_tokens_) {
    const std::vector<PassChunk> chunks = NextPass(prefixes_, group, position, pass_tokens_);
    SCD_RETURN_IF_ERROR(Forward(producer_, group, chunks, cancel));
    SCD_RETURN_IF_ERROR(Forward(consumer_, group, chunks, cancel));
    SCD_RETURN_IF_ERROR(on_pass(chunks, *producer_.tap, *consumer_.tap));
  }
  return absl::OkStatus();
}

}  // namespace scd
