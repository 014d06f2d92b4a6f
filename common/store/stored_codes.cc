#include "common/store/stored_codes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/wire/payload_format.h"

namespace scd {
namespace {

// By its size; what it holds is checked where it is read.
bool FitsColumn(Codec codec, const CodeColumn& column, std::int64_t num_tokens, absl::string_view payload) {
  if (!HasFixedSize(codec)) return CheckPayload(codec, column.kind, num_tokens, column.rank, payload).ok();
  return payload.size() ==
         static_cast<std::size_t>(PayloadBytes(codec, column.kind, num_tokens, column.rank));
}

}  // namespace

std::int64_t StoredCodes::num_tokens() const {
  std::int64_t count = 0;
  for (const auto& block : blocks) count += block->num_tokens;
  return count;
}

StoredCodes CodesOf(const LayerPlan& plan, std::int64_t first_token,
                    std::vector<std::shared_ptr<const CodeBlock>> blocks, std::int64_t block_tokens) {
  StoredCodes codes{.first_token = first_token, .blocks = std::move(blocks)};
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

StoredCodes FindCodes(CodeStore& store, const LayerPlan& plan, std::int64_t first_token,
                      absl::Span<const Digest> keys, std::int64_t block_tokens) {
  return CodesOf(plan, first_token, store.FindPrefix(keys), block_tokens);
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
