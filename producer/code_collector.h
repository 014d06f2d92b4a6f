// Cuts the codes of a running prefill, which come chunk by chunk and layer by layer, into the blocks of the
// code store.
#ifndef SCD_PRODUCER_CODE_COLLECTOR_H_
#define SCD_PRODUCER_CODE_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"
#include "producer/code_store.h"

namespace scd {

class CodeCollector {
 public:
  // Whether codes of the plan can be cut into such blocks: a block holds whole granules (payload_format.h).
  static bool CanCut(const LayerPlan& plan, std::int64_t block_tokens);

  // CanCut(plan, block_tokens).
  CodeCollector(const LayerPlan& plan, std::int64_t block_tokens);

  // Codes of one column, following those that were added to it before. All but the last of the prompt hold
  // whole granules.
  void Add(const LayerCode& code);
  // The blocks that are whole in every column and were not taken yet, in order.
  std::vector<std::shared_ptr<const CodeBlock>> TakeBlocks();

 private:
  struct Column {
    CodeColumn column;
    std::size_t block_bytes = 0;
    std::string pending;  // rows not taken yet
  };

  const std::int64_t block_tokens_;
  std::vector<Column> columns_;
};

// Codes of the columns of a plan, in order, from blocks that follow each other; joined over blocks into codes
// of at most max_payload_bytes (but at least one block).
class StoredCodeReader {
 public:
  StoredCodeReader(const LayerPlan& plan, std::int64_t first_token,
                   std::vector<std::shared_ptr<const CodeBlock>> blocks, std::int64_t max_payload_bytes);

  // False when there are no more.
  bool Next(LayerCode* code);

 private:
  const Codec codec_;
  const std::int64_t first_token_;
  const std::int64_t max_payload_bytes_;
  const std::vector<CodeColumn> columns_;
  const std::vector<std::shared_ptr<const CodeBlock>> blocks_;
  std::size_t column_ = 0;
  std::size_t block_ = 0;
  std::int64_t token_ = 0;  // of block_, from first_token_
};

}  // namespace scd

#endif  // SCD_PRODUCER_CODE_COLLECTOR_H_
