#include "common/translate/plan_entropy.h"

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<EntropyCoder>> EntropyCoderFor(const Bundle& bundle, const LayerPlan& plan,
                                                              std::int64_t layer, const SentKind& sent,
                                                              UnsentColumns unsent) {
  if (plan.codec != Codec::kEntropy) return nullptr;
  SCD_ASSIGN_OR_RETURN(EntropyTables tables, bundle.Entropy(layer, sent.kind, sent.rank, plan.rate_point));
  if (unsent == UnsentColumns::kCutOff) {
    auto columns = static_cast<std::size_t>(sent.rank);
    while (columns > 1 && tables.steps[columns - 1] == 0.0f) --columns;
    tables.steps = tables.steps.first(columns);
    tables.frequencies = tables.frequencies.first(columns * static_cast<std::size_t>(kEntropySymbols));
  }
  return EntropyCoder::Create(tables);
}

}  // namespace scd
