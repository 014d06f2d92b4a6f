// Blocks of a code store as codes again.
#ifndef SCD_COMMON_STORE_STORED_CODES_H_
#define SCD_COMMON_STORE_STORED_CODES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "common/store/code_store.h"
#include "common/wire/layer_code.h"

namespace scd {

// Blocks that follow each other, from first_token on.
struct StoredCodes {
  std::int64_t first_token = 0;
  std::vector<std::shared_ptr<const CodeBlock>> blocks;

  std::int64_t num_tokens() const;
};

// Codes of a plan from first_token on out of blocks that a store gave, as far as they are what such codes can
// be. Whatever a store holds, the readers below can read it.
StoredCodes CodesOf(const LayerPlan& plan, std::int64_t first_token,
                    std::vector<std::shared_ptr<const CodeBlock>> blocks, std::int64_t block_tokens);
// The same of the blocks of the longest prefix of `keys` that `store` knows.
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

#endif  // SCD_COMMON_STORE_STORED_CODES_H_
