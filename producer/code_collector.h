// Cuts the codes of a running prefill, which come chunk by chunk and layer by layer, into the blocks of the
// code store.
//
// Blocks end at multiples of block_tokens, counted from position 0.
#ifndef SCD_PRODUCER_CODE_COLLECTOR_H_
#define SCD_PRODUCER_CODE_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/config/layer_plan.h"
#include "common/store/code_block.h"
#include "common/wire/layer_code.h"

namespace scd {

// Tokens of the longest granule (payload_format.h) that a plan's codes have. The others divide it.
std::int64_t PlanGranule(const LayerPlan& plan);

class CodeCollector {
 public:
  // Whether codes of the plan can be cut into such blocks: a block holds whole granules.
  static bool CanCut(const LayerPlan& plan, std::int64_t block_tokens);

  // CanCut(plan, block_tokens). Collects from first_token on.
  CodeCollector(const LayerPlan& plan, std::int64_t block_tokens, std::int64_t first_token);

  // Codes of one column, following those that were added to it before. Each holds whole granules, but for
  // one that ends at a multiple of the granule or of the prompt's last code.
  void Add(const LayerCode& code);
  // The blocks that are whole in every column and were not taken yet, in order.
  std::vector<std::shared_ptr<const CodeBlock>> TakeBlocks();

 private:
  // A block that is not whole yet.
  struct Pending {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::vector<std::string> payloads;  // of columns_
    std::size_t num_whole = 0;          // columns that are whole
  };
  // The next code of a column.
  struct Place {
    std::size_t block = 0;  // of pending_
    std::int64_t token = 0;
  };

  Pending& BlockAt(std::size_t index);

  const std::int64_t block_tokens_;
  const std::vector<CodeColumn> columns_;
  std::int64_t next_begin_;       // of the block after the last of pending_
  std::vector<Pending> pending_;  // in order
  std::vector<Place> places_;     // of columns_
};

}  // namespace scd

#endif  // SCD_PRODUCER_CODE_COLLECTOR_H_
