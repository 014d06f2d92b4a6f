#include "calibrate/quality_stage.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<HeldOutQuality> RunQualityStage(const RunContext& context, const Bundle& bundle,
                                               const std::vector<std::int64_t>& patch_layers, bool fused,
                                               HeldOutEvaluator& evaluator) {
  SCD_RETURN_IF_ERROR(evaluator.UseBundle(bundle));
  SCD_ASSIGN_OR_RETURN(const HeldOutScore reuse, evaluator.ScoreWith({}, StateSource::kReuse));
  SCD_ASSIGN_OR_RETURN(const HeldOutScore scd, evaluator.ScoreWith(patch_layers, StateSource::kPatch));
  HeldOutQuality quality{.kl_reuse = reuse.kl,
                         .kl_scd = scd.kl,
                         .ppl_native = evaluator.oracle_ppl(),
                         .ppl_reuse = reuse.ppl,
                         .ppl_scd = scd.ppl};
  context.log.Info(absl::StrFormat(
      "held-out quality on %d prefixes: KL %.4f with Reuse alone, %.4f with Patch layers [%s]; "
      "PPL %.2f native, %.2f Reuse, %.2f with Patch",
      evaluator.num_prefixes(), reuse.kl, scd.kl, absl::StrJoin(patch_layers, " "), quality.ppl_native,
      reuse.ppl, scd.ppl));
  if (!fused) return quality;
  SCD_ASSIGN_OR_RETURN(const LayerPlan plan,
                       bundle.ResolvePlan({.form = StateForm::kFused, .codec = Codec::kBF16}));
  SCD_ASSIGN_OR_RETURN(const PlanScore score, evaluator.ScorePlan(bundle, plan));
  quality.kl_fused = score.quality.kl;
  quality.ppl_fused = score.quality.ppl;
  context.log.Info(absl::StrFormat("held-out quality of fused layers, codes in bf16: KL %.4f, PPL %.2f",
                                   quality.kl_fused, quality.ppl_fused));
  return quality;
}

}  // namespace scd
