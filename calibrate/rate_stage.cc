#include "calibrate/rate_stage.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"
#include "calibrate/rate_search.h"
#include "common/config/codec.h"
#include "common/config/layer_plan.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

class RateStage {
 public:
  RateStage(const RunContext& context, const std::vector<CodeSample>& samples, HeldOutEvaluator& evaluator,
            const DraftBundle& draft, WorkerPool& workers, FittedPair& fitted)
      : context_(context),
        samples_(samples),
        evaluator_(evaluator),
        draft_(draft),
        workers_(workers),
        fitted_(fitted) {}

  // Adds points of these distortions, ascending.
  absl::Status AddPoints(const std::vector<double>& distortions) {
    for (const double distortion : distortions) {
      FittedRate& rate = fitted_.rates.emplace_back();
      rate.point.distortion = distortion;
      SCD_ASSIGN_OR_RETURN(rate.tables, FitCodeTables(samples_, distortion, workers_));
    }
    SCD_ASSIGN_OR_RETURN(const auto bundle, draft_(fitted_));
    for (FittedRate& rate : fitted_.rates) {
      SCD_ASSIGN_OR_RETURN(rate.point, Measure(*bundle, rate.point.distortion));
    }
    return absl::OkStatus();
  }

  // The point that meets the target, one of those that are there or a new one, becomes the default.
  absl::Status Meet(const RateTarget& target) {
    std::vector<RatePoint> known;
    for (const FittedRate& rate : fitted_.rates) known.push_back(rate.point);
    SCD_ASSIGN_OR_RETURN(const RatePoint found,
                         FindRatePoint(target, known, [&](double distortion) { return Try(distortion); }));
    const auto at =
        std::lower_bound(fitted_.rates.begin(), fitted_.rates.end(), found.distortion,
                         [](const FittedRate& rate, double d) { return rate.point.distortion < d; });
    fitted_.default_rate = at - fitted_.rates.begin();
    if (at != fitted_.rates.end() && at->point.distortion == found.distortion) return absl::OkStatus();
    SCD_ASSIGN_OR_RETURN(auto tables, FitCodeTables(samples_, found.distortion, workers_));
    fitted_.rates.insert(at, {.point = found, .tables = std::move(tables)});
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<RatePoint> Measure(const Bundle& bundle, double distortion) {
    const bool fused = bundle.manifest().fused.rank > 0;
    SCD_ASSIGN_OR_RETURN(const LayerPlan plan,
                         bundle.ResolvePlan({.form = fused ? StateForm::kFused : StateForm::kCodes,
                                             .codec = Codec::kEntropy,
                                             .distortion = distortion}));
    SCD_ASSIGN_OR_RETURN(const PlanScore score, evaluator_.ScorePlan(bundle, plan));
    context_.log.Info(absl::StrFormat("rate point: distortion %g, %.0f bytes a token, KL %.4f, PPL %.2f",
                                      distortion, score.bytes_per_token, score.quality.kl,
                                      score.quality.ppl));
    return RatePoint{
        .distortion = distortion, .bytes_per_token = score.bytes_per_token, .kl = score.quality.kl};
  }

  // A point that is not kept.
  absl::StatusOr<RatePoint> Try(double distortion) {
    std::vector<FittedRate> kept = std::exchange(fitted_.rates, {});
    const std::int64_t kept_default = std::exchange(fitted_.default_rate, 0);
    const auto measure = [&]() -> absl::StatusOr<RatePoint> {
      FittedRate& rate = fitted_.rates.emplace_back();
      rate.point.distortion = distortion;
      SCD_ASSIGN_OR_RETURN(rate.tables, FitCodeTables(samples_, distortion, workers_));
      SCD_ASSIGN_OR_RETURN(const auto bundle, draft_(fitted_));
      return Measure(*bundle, distortion);
    };
    absl::StatusOr<RatePoint> point = measure();
    fitted_.rates = std::move(kept);
    fitted_.default_rate = kept_default;
    return point;
  }

  const RunContext& context_;
  const std::vector<CodeSample>& samples_;
  HeldOutEvaluator& evaluator_;
  const DraftBundle& draft_;
  WorkerPool& workers_;
  FittedPair& fitted_;
};

}  // namespace

absl::Status RunRateStage(const RunContext& context, const EntropyConfig& config,
                          const std::vector<CodeSample>& samples, HeldOutEvaluator& evaluator,
                          const DraftBundle& draft, WorkerPool& workers, FittedPair* fitted) {
  RateStage stage(context, samples, evaluator, draft, workers, *fitted);
  const std::vector<double>& distortions = config.distortions;
  fitted->default_rate =
      std::find(distortions.begin(), distortions.end(), config.default_distortion) - distortions.begin();
  SCD_RETURN_IF_ERROR(stage.AddPoints(distortions));
  if (config.target.given()) SCD_RETURN_IF_ERROR(stage.Meet(config.target));
  const RatePoint& chosen = fitted->rates[static_cast<std::size_t>(fitted->default_rate)].point;
  context.log.Info(absl::StrFormat("rate: by default distortion %g, %.0f bytes a token, KL %.4f",
                                   chosen.distortion, chosen.bytes_per_token, chosen.kl));
  return absl::OkStatus();
}

}  // namespace scd
