// Names of the blocks of the code store.
//
// Codes and KV pages are cut at the same positions: multiples of the block's tokens from position 0 on, so
// that requests whose first positions differ still share blocks. The first block of a request may be a part
// of one, and is named as such.
#ifndef SCD_COMMON_STORE_CODE_KEYS_H_
#define SCD_COMMON_STORE_CODE_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "kernels/dtype.h"

namespace scd {

// What all state of one producer depends on besides the tokens, as the seed of its page keys: the model's
// digest, how its weights are kept (Transformer::weights_description) and the type of KV pages.
Digest StateSeed(const Digest& model, const std::string& weights, DType kv_dtype);

// One name for each of `page_keys` (common/cache/block_keys.h, from position 0) from the block that holds
// first_token on. Equal names mean equal codes: a name depends on the block's page key, the bundle, what the
// plan sends, and where the codes begin in the block. native_head and native_tail do not matter.
std::vector<Digest> CodeKeys(const Digest& bundle, const LayerPlan& plan, std::int64_t first_token,
                             absl::Span<const Digest> page_keys, std::int64_t block_tokens);

}  // namespace scd

#endif  // SCD_COMMON_STORE_CODE_KEYS_H_
