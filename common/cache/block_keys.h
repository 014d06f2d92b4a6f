// Names for whole blocks of KV state: a block is what a page holds, page_tokens positions of all layers.
//
// The key of a block depends on the seed and on every token up to the block's end, so that equal keys mean
// the same tokens at the same positions, computed the same way.
#ifndef SCD_COMMON_CACHE_BLOCK_KEYS_H_
#define SCD_COMMON_CACHE_BLOCK_KEYS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/io/digest.h"

namespace scd {

// One key for each whole block of `tokens`, in order; page_tokens >= 1. `seed` says everything else that the
// state depends on: the model with its adapter, how its weights and the pages are stored, and for rebuilt
// state what it was rebuilt from.
std::vector<Digest> BlockKeys(const Digest& seed, absl::Span<const std::int32_t> tokens,
                              std::int64_t page_tokens);

}  // namespace scd

#endif  // SCD_COMMON_CACHE_BLOCK_KEYS_H_
