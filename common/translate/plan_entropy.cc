#include "common/translate/plan_entropy.h"

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<EntropyCoder>> EntropyCoderFor(const Bundle& bundle, const LayerPlan& plan,
                                                              std::int64_t layer, const SentKind& sent) {
  if (plan.codec != Codec::kEntropy) return nullptr;
  SCD_ASSIGN_OR_RETURN(const EntropyTables tables,
                       bundle.Entropy(layer, sent.kind, sent.rank, plan.rate_point));
  return EntropyCoder::Create(tables);
}

}  // namespace scd
