#include "producer/code_collector.h"

#include <algorithm>
#include <utility>

#include "common/wire/payload_format.h"

namespace scd {
namespace {

// By its size; what it holds is checked where it is read.
bool FitsColumn(Codec codec, const CodeColumn& column, std::int64_t num_tokens, absl::string_view payload) {
  return payload.size() ==
         static_cast<std::size_t>(PayloadBytes(codec, column.kind, num_tokens, column.rank));
}

}  // namespace

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
    : codec_(plan.codec),
      block_tokens_(block_tokens),
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
  const auto bytes = [&](std::int64_t tokens) {
    return static_cast<std::size_t>(PayloadBytes(codec_, code.kind, tokens, code.rank));
  };
  for (std::int64_t taken = 0; taken < code.num_tokens;) {
    Pending& pending = BlockAt(place.block);
    const std::int64_t count = std::min(code.num_tokens - taken, pending.end - place.token);
    std::string& payload = pending.payloads[column];
    if (payload.empty()) payload.reserve(bytes(pending.end - pending.begin));
    payload.append(code.payload, bytes(taken), bytes(taken + count) - bytes(taken));
    taken += count;
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

std::int64_t StoredCodes::num_tokens() const {
  std::int64_t count = 0;
  for (const auto& block : blocks) count += block->num_tokens;
  return count;
}

StoredCodes FindCodes(CodeStore& store, const LayerPlan& plan, std::int64_t first_token,
                      absl::Span<const Digest> keys, std::int64_t block_tokens) {
  StoredCodes codes{.first_token = first_token, .blocks = store.FindPrefix(keys)};
  const std::vector<CodeColumn> columns = PlanColumns(plan);
  std::int64_t begin = first_token;
  const auto fits = [&](const std::shared_ptr<const CodeBlock>& block) {
    const std::int64_t num_tokens = block_tokens - begin % block_tokens;
    begin += num_tokens;
    if (block->num_tokens != num_tokens || block->payloads.size() != columns.size()) return false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!FitsColumn(plan.codec, columns[i], num_tokens, block->payloads[i])) return false;
    }
    return true;
  };
  codes.blocks.erase(std::find_if_not(codes.blocks.begin(), codes.blocks.end(), fits), codes.blocks.end());
  return codes;
}

StoredCodeReader::StoredCodeReader(const LayerPlan& plan, StoredCodes codes, std::int64_t max_payload_bytes)
    : codec_(plan.codec),
      max_payload_bytes_(max_payload_bytes),
      columns_(PlanColumns(plan)),
      codes_(std::move(codes)),
      token_(codes_.first_token) {}

bool StoredCodeReader::Next(LayerCode* code) {
  if (column_ == columns_.size() || codes_.blocks.empty()) return false;
  const CodeColumn& column = columns_[column_];
  const std::int64_t granule = GranuleTokens(codec_, column.kind);
  code->layer = column.layer;
  code->kind = column.kind;
  code->rank = column.rank;
  code->codec = codec_;
  code->first_token = token_;
  code->num_tokens = 0;
  code->payload.clear();
  while (block_ < codes_.blocks.size() && code->num_tokens % granule == 0) {
    const CodeBlock& block = *codes_.blocks[block_];
    const absl::string_view payload = block.payloads[column_];
    if (!code->payload.empty() &&
        code->payload.size() + payload.size() > static_cast<std::size_t>(max_payload_bytes_)) {
      break;
    }
    code->payload.append(payload.data(), payload.size());
    code->num_tokens += block.num_tokens;
    token_ += block.num_tokens;
    ++block_;
  }
  if (block_ == codes_.blocks.size()) {
    ++column_;
    block_ = 0;
    token_ = codes_.first_token;
  }
  return true;
}

}  // namespace scd
