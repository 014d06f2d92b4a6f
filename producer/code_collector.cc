#include "producer/code_collector.h"

#include <algorithm>
#include <utility>

#include "common/wire/payload_format.h"

namespace scd {

bool CodeCollector::CanCut(const LayerPlan& plan, std::int64_t block_tokens) {
  const std::vector<CodeColumn> columns = PlanColumns(plan);
  return std::all_of(columns.begin(), columns.end(), [&](const CodeColumn& column) {
    return block_tokens % GranuleTokens(plan.codec, column.kind) == 0;
  });
}

CodeCollector::CodeCollector(const LayerPlan& plan, std::int64_t block_tokens) : block_tokens_(block_tokens) {
  for (const CodeColumn& column : PlanColumns(plan)) {
    const std::int64_t bytes = PayloadBytes(plan.codec, column.kind, block_tokens, column.rank);
    columns_.push_back({column, static_cast<std::size_t>(bytes), {}});
  }
}

void CodeCollector::Add(const LayerCode& code) {
  for (Column& column : columns_) {
    if (column.column.layer == code.layer && column.column.kind == code.kind) column.pending += code.payload;
  }
}

std::vector<std::shared_ptr<const CodeBlock>> CodeCollector::TakeBlocks() {
  std::size_t num_blocks = columns_.empty() ? 0 : columns_.front().pending.size();
  for (const Column& column : columns_) {
    num_blocks = std::min(num_blocks, column.pending.size() / column.block_bytes);
  }
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    auto block = std::make_shared<CodeBlock>();
    block->num_tokens = block_tokens_;
    for (const Column& column : columns_) {
      block->payloads.push_back(column.pending.substr(i * column.block_bytes, column.block_bytes));
    }
    blocks.push_back(std::move(block));
  }
  for (Column& column : columns_) {
    column.pending.erase(0, num_blocks * column.block_bytes);
  }
  return blocks;
}

StoredCodeReader::StoredCodeReader(const LayerPlan& plan, std::int64_t first_token,
                                   std::vector<std::shared_ptr<const CodeBlock>> blocks,
                                   std::int64_t max_payload_bytes)
    : codec_(plan.codec),
      first_token_(first_token),
      max_payload_bytes_(max_payload_bytes),
      columns_(PlanColumns(plan)),
      blocks_(std::move(blocks)) {}

bool StoredCodeReader::Next(LayerCode* code) {
  if (column_ == columns_.size() || blocks_.empty()) return false;
  const CodeColumn& column = columns_[column_];
  code->layer = column.layer;
  code->kind = column.kind;
  code->rank = column.rank;
  code->codec = codec_;
  code->first_token = first_token_ + token_;
  code->num_tokens = 0;
  code->payload.clear();
  while (block_ < blocks_.size()) {
    const CodeBlock& block = *blocks_[block_];
    const std::string& payload = block.payloads[column_];
    if (!code->payload.empty() &&
        code->payload.size() + payload.size() > static_cast<std::size_t>(max_payload_bytes_)) {
      break;
    }
    code->payload += payload;
    code->num_tokens += block.num_tokens;
    token_ += block.num_tokens;
    ++block_;
  }
  if (block_ == blocks_.size()) {
    ++column_;
    block_ = 0;
    token_ = 0;
  }
  return true;
}

}  // namespace scd
