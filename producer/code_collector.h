// Cuts the codes of a running prefill, which come chunk by chunk and layer by layer, into the blocks of the
// code store, and reads blocks as codes again.
//
// Blocks end at multiples of block_tokens, counted from position 0.
#ifndef SCD_PRODUCER_CODE_COLLECTOR_H_
#define SCD_PRODUCER_CODE_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "common/store/code_store.h"
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

  const Codec codec_;
  const std::int64_t block_tokens_;
  const std::vector<CodeColumn> columns_;
  std::int64_t next_begin_;       // of the block after the last of pending_
  std::vector<Pending> pending_;  // in order
  std::vector<Place> places_;     // of columns_
};

// Blocks that follow each other, from first_token on.
struct StoredCodes {
  std::int64_t first_token = 0;
  std::vector<std::shared_ptr<const CodeBlock>> blocks;

  std::int64_t num_tokens() const;
};

// What `store` knows of the codes of a plan from first_token on: the blocks of the longest known prefix of
// `keys`, as far as they are what such codes can be. Whatever a store holds, the readers below can read it.
StoredCodes FindCodes(CodeStore& store, const LayerPlan& plan, std::int64_t first_token,
                      absl::Span<const Digest> keys, std::int64_t block_tokens);

// Codes of the columns of a plan, in order, from blocks; joined over blocks into codes of at most
// max_payload_bytes (but at least one block), each of whole granules but for the last of its column and one
// that ends at a multiple of the granule.
class StoredCodeReader {
 public:
  StoredCodeReader(const LayerPlan& plan, StoredCodes codes, std::int64_t max_payload_bytes);

  // False when there are no more.
  bool Next(LayerCode* code);

 private:
  Codec codec_;
  std::int64_t max_payload_bytes_;
  std::vector<CodeColumn> columns_;
  StoredCodes codes_;
  std::size_t column_ = 0;
  std::size_t block_ = 0;
  std::int64_t token_ = 0;  // of block_
};

}  // namespace scd

#endif  // SCD_PRODUCER_CODE_COLLECTOR_H_
