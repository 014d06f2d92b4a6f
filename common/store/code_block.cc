#include "common/store/code_block.h"

#include <cstddef>
#include <utility>

namespace scd {
namespace {

absl::Time WholeMilliseconds(absl::Time time) {
  return absl::FromUnixMillis(absl::ToUnixMillis(time));
}

}  // namespace

std::vector<CodeColumn> PlanColumns(const LayerPlan& plan) {
  std::vector<CodeColumn> columns;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    for (const SentKind& sent : SentKinds(plan.layers[i])) {
      columns.push_back({static_cast<std::int64_t>(i), sent.kind, sent.rank});
    }
  }
  return columns;
}

std::int64_t CodeBlock::size_bytes() const {
  // A key, a list node, a hash slot and an owner go with each block, a string with each payload.
  std::size_t bytes = sizeof(CodeBlock) + 192;
  for (const absl::string_view payload : payloads) {
    bytes += sizeof(absl::string_view) + sizeof(std::string) + payload.size();
  }
  return static_cast<std::int64_t>(bytes);
}

std::shared_ptr<const CodeBlock> MakeCodeBlock(std::int64_t num_tokens, std::vector<std::string> payloads,
                                               absl::Time created) {
  const auto owned = std::make_shared<const std::vector<std::string>>(std::move(payloads));
  auto block = std::make_shared<CodeBlock>();
  block->num_tokens = num_tokens;
  block->created = WholeMilliseconds(created);
  block->payloads.assign(owned->begin(), owned->end());
  block->owner = owned;
  return block;
}

std::shared_ptr<const CodeBlock> CopyToMemory(const CodeBlock& block) {
  std::size_t total = 0;
  for (const absl::string_view payload : block.payloads) total += payload.size();
  const auto memory = std::make_shared<std::string>();
  memory->reserve(total);
  for (const absl::string_view payload : block.payloads) memory->append(payload.data(), payload.size());

  auto copy = std::make_shared<CodeBlock>(block);
  std::size_t begin = 0;
  for (absl::string_view& payload : copy->payloads) {
    payload = absl::string_view(*memory).substr(begin, payload.size());
    begin += payload.size();
  }
  copy->owner = memory;
  return copy;
}

}  // namespace scd
