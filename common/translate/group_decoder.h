// The decoders of all layers of a Fused group as one weight, for devices where one large product is worth
// more than many small ones.
#ifndef SCD_COMMON_TRANSLATE_GROUP_DECODER_H_
#define SCD_COMMON_TRANSLATE_GROUP_DECODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "kernels/backend.h"

namespace scd {

// [layers 2 d_kv, columns], of each layer K above V, cut between all; of codes' first `columns`.
absl::StatusOr<std::unique_ptr<PackedWeight>> PackGroupDecoder(const Bundle& bundle, const LayerRange& layers,
                                                               std::int64_t columns, Backend& backend);

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_GROUP_DECODER_H_
