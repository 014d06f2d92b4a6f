#include "producer/code_collector.h"

#include <algorithm>
#include <utility>

#include "common/wire/payload_format.h"

namespace scd {

std::int64_t PlanGranule(const LayerPlan& plan) {
  std::int64_t longest = 1;
  for (const CodeColumn& column : PlanColumns(plan)) {
    longest = std::max(longest, GranuleTokens(plan.codec, column.kind));
  }
  return longest;
}

bool CodeCollector::CanCut(const LayerPlan& plan, std::int64_t block_tokens) {
  return block_tokens % PlanGranule(plan) == 0;
}

CodeCollector::CodeCollector(const LayerPlan& plan, std::int64_t block_tokens, std::int64_t first_token)
    : block_tokens_(block_tokens),
      columns_(PlanColumns(plan)),
      next_begin_(first_token),
      places_(columns_.size(), Place{.block = 0, .token = first_token}) {}

CodeCollector::Pending& CodeCollector::BlockAt(std::size_t index) {
  while (pending_.size() <= index) {
    const std::int64_t end = next_begin_ + block_tokens_ - next_begin_ % block_tokens_;
    pending_.push_back(
        {.begin = next_begin_, .end = end, .payloads = std::vector<std::string>(columns_.size())});
    next_begin_ = end;
  }
  return pending_[index];
}

void CodeCollector::Add(const LayerCode& code) {
  const auto found = std::find_if(columns_.begin(), columns_.end(), [&code](const CodeColumn& column) {
    return column.layer == code.layer && column.kind == code.kind;
  });
  if (found == columns_.end()) return;
  const auto column = static_cast<std::size_t>(found - columns_.begin());
  Place& place = places_[column];
  const PayloadCuts cuts(code);
  for (std::int64_t taken = 0; taken < code.num_tokens;) {
    Pending& pending = BlockAt(place.block);
    const std::int64_t count = std::min(code.num_tokens - taken, pending.end - place.token);
    std::string& payload = pending.payloads[column];
    const std::size_t begin = cuts.BytesBefore(taken);
    taken += count;
    payload.append(code.payload, begin, cuts.BytesBefore(taken) - begin);
    place.token += count;
    if (place.token < pending.end) continue;
    ++pending.num_whole;
    ++place.block;
  }
}

std::vector<std::shared_ptr<const CodeBlock>> CodeCollector::TakeBlocks() {
  const auto part = std::find_if(pending_.begin(), pending_.end(), [this](const Pending& pending) {
    return pending.num_whole < columns_.size();
  });
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  for (auto whole = pending_.begin(); whole != part; ++whole) {
    blocks.push_back(MakeCodeBlock(whole->end - whole->begin, std::move(whole->payloads)));
  }
  pending_.erase(pending_.begin(), part);
  for (Place& place : places_) place.block -= blocks.size();
  return blocks;
}

}  // namespace scd
