// Under which keys the blocks of a prompt are known to this consumer's KV cache.
//
// The chain of a prompt's keys begins with everything that its state depends on besides the tokens, so that
// state which was computed here, and state which was rebuilt from codes by one plan or another, never meet.
#ifndef SCD_CONSUMER_PREFIX_KEYS_H_
#define SCD_CONSUMER_PREFIX_KEYS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "kernels/dtype.h"

namespace scd {

struct PrefixKeysOptions {
  Digest model;         // with its adapter
  std::string weights;  // how the transformer keeps and multiplies them
  DType kv_dtype = DType::kF32;
  std::int64_t page_tokens = 0;
  Digest bundle = {};  // empty: nothing is rebuilt
};

// Immutable. One that was made by default gives no keys: nothing is shared.
class PrefixKeys {
 public:
  PrefixKeys() = default;
  explicit PrefixKeys(const PrefixKeysOptions& options);

  // Of state that this model computes.
  std::vector<Digest> Native(absl::Span<const std::int32_t> tokens) const;
  // Of state that is rebuilt by this plan in this mode, its native head computed here. `tokens`: up to the
  // end of the codes. None for Fused layers where pages do not end with their granules.
  std::vector<Digest> Rebuilt(std::string_view mode, const LayerPlan& plan,
                              absl::Span<const std::int32_t> tokens) const;

 private:
  PrefixKeysOptions options_;
  Digest native_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_PREFIX_KEYS_H_
