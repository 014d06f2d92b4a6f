#include "eval/drift/drift_command.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/bundle/bundle.h"
#include "common/model/loaded_pair.h"
#include "eval/drift/drift_probe.h"
#include "eval/drift/drift_recursion.h"
#include "eval/drift/drift_sums.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using nlohmann::json;

constexpr char kNote[] =
    "Relative errors against the consumer's own native state. kv_error_k and kv_error_v: Frobenius norm"
    " over the transferred positions, K before RoPE, means not subtracted. hidden_error[l]: the "
    "residual stream entering layer l, the last entry leaving the last layer, at the prompt's last "
    "token and the teacher-forced tokens after it. Lemma 5.1 is read as e_{l+1} <= alpha_l e_l + beta_l"
    " eps_l with e_0 = 0: e_l is the decode-time error entering layer l, eps_l the KV error of layer l "
    "(root of the sum of squares of K's and V's), whether Reuse or Patch made it. A Patch layer lowers "
    "eps_l and does not reset e_l, because the decoded tokens' own residual stream runs through it as "
    "through any layer; the paper's piecewise form starts again from the patch's own error there. "
    "alpha_l: error leaving layer l, run alone on the erroneous input over native KV, divided by the "
    "error entering it. beta_l: error leaving layer l, run alone on the native input over the rebuilt "
    "KV, divided by eps_l. Both are empirical ratios along the error directions that were observed, no "
    "Lipschitz constants, so the recursion is no bound. alpha, beta, eps and predicted come from the "
    "first ";

json Relative(const std::vector<ErrorSum>& sums) {
  json values = json::array();
  for (const ErrorSum& sum : sums) values.push_back(sum.Relative());
  return values;
}

// NaN: null.
json Numbers(const std::vector<double>& numbers) {
  json values = json::array();
  for (const double number : numbers) values.push_back(std::isnan(number) ? json(nullptr) : json(number));
  return values;
}

json Curve(const std::string& mode, const LayerPlan& plan, const DriftSums& estimated,
           const DriftSums& measured) {
  const DriftEstimates estimates = EstimateDrift(estimated);
  const std::vector<double> predicted = PredictDrift(estimates);
  std::vector<double> errors;
  for (const ErrorSum& sum : measured.hidden) errors.push_back(sum.Relative());
  return {{"mode", mode},
          {"patch_layers", plan.patch_layers()},
          {"plan", plan.ToString()},
          {"kv_error_k", Relative(measured.k)},
          {"kv_error_v", Relative(measured.v)},
          {"hidden_error", errors},
          {"alpha", Numbers(estimates.alpha)},
          {"beta", Numbers(estimates.beta)},
          {"eps", Numbers(estimates.eps)},
          {"predicted", predicted},
          {"violated", ViolatedLayers(errors, predicted)}};
}

absl::Status CheckOptions(const DriftOptions& options) {
  if (options.modes.empty()) return absl::InvalidArgumentError("drift: no modes");
  if (options.decode_positions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("drift: decode_positions is ", options.decode_positions, ", expected at least 1"));
  }
  if (options.prefixes.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "drift: ", options.prefixes.size(),
        " prefixes, expected at least 2: the first half is for the estimates, the rest is measured"));
  }
  for (std::size_t i = 0; i < options.prefixes.size(); ++i) {
    const std::size_t following = options.prefixes[i].continuation.size();
    if (following + 1 < static_cast<std::size_t>(options.decode_positions)) {
      return absl::InvalidArgumentError(
          absl::StrCat("drift: prefix ", i, " is followed by ", following, " tokens, ",
                       options.decode_positions, " decode positions need ", options.decode_positions - 1));
    }
  }
  return absl::OkStatus();
}

std::int64_t LongestPrompt(const std::vector<DriftPrefix>& prefixes) {
  std::size_t longest = 0;
  for (const DriftPrefix& prefix : prefixes) longest = std::max(longest, prefix.prompt.size());
  return static_cast<std::int64_t>(longest);
}

absl::StatusOr<LoadedPair> OpenPair(const DriftOptions& options, const Bundle& bundle,
                                    std::int64_t max_tokens) {
  SCD_ASSIGN_OR_RETURN(const Model producer, OpenModel(options.producer));
  SCD_RETURN_IF_ERROR(bundle.CheckProducer(producer.digest, producer.tokenizer->digest()));
  SCD_ASSIGN_OR_RETURN(const Model consumer, OpenModel(options.consumer));
  SCD_RETURN_IF_ERROR(bundle.CheckConsumer(consumer.digest, consumer.tokenizer->digest()));
  return LoadPair(producer, consumer, options.backend, max_tokens);
}

}  // namespace

absl::StatusOr<json> RunDrift(const DriftOptions& options, const std::function<void(std::int64_t)>& on_prefix,
                              std::stop_token stop) {
  SCD_RETURN_IF_ERROR(CheckOptions(options));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Bundle> bundle, Bundle::Open(options.bundle));
  std::vector<LayerPlan> plans;
  for (const DriftMode& mode : options.modes) {
    SCD_ASSIGN_OR_RETURN(LayerPlan plan, bundle->ResolvePlan(mode.plan));
    plans.push_back(std::move(plan));
  }
  const DriftLimits limits{.max_prompt_tokens = LongestPrompt(options.prefixes),
                           .max_continuation_tokens = options.decode_positions - 1};
  SCD_ASSIGN_OR_RETURN(const LoadedPair pair,
                       OpenPair(options, *bundle, limits.max_prompt_tokens + limits.max_continuation_tokens));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<DriftProbe> probe,
                       DriftProbe::Create(*pair.producer, *pair.consumer, *bundle, plans, limits));

  const std::int64_t num_layers = pair.consumer->config().num_layers;
  const std::size_t first_measured = options.prefixes.size() / 2;
  std::vector<DriftSums> estimated(plans.size(), DriftSums(num_layers));
  std::vector<DriftSums> measured = estimated;
  for (std::size_t i = 0; i < options.prefixes.size(); ++i) {
    if (stop.stop_requested()) return absl::CancelledError("drift: stopped");
    const DriftPrefix& prefix = options.prefixes[i];
    const auto following = absl::MakeConstSpan(prefix.continuation)
                               .first(static_cast<std::size_t>(limits.max_continuation_tokens));
    const absl::StatusOr<std::vector<DriftSums>> sums = probe->Measure(prefix.prompt, following, stop);
    if (!sums.ok()) {
      return absl::Status(sums.status().code(), absl::StrCat("prefix ", i, ": ", sums.status().message()));
    }
    std::vector<DriftSums>& into = i < first_measured ? estimated : measured;
    for (std::size_t p = 0; p < plans.size(); ++p) into[p] += (*sums)[p];
    if (on_prefix) on_prefix(static_cast<std::int64_t>(i) + 1);
  }

  json layers = json::array();
  for (std::int64_t layer = 0; layer < num_layers; ++layer) layers.push_back(layer);
  json curves = json::array();
  for (std::size_t p = 0; p < plans.size(); ++p) {
    curves.push_back(Curve(options.modes[p].name, plans[p], estimated[p], measured[p]));
  }
  return json{{"layers", layers},
              {"prefixes", options.prefixes.size()},
              {"decode_positions", options.decode_positions},
              {"curves", curves},
              {"note", absl::StrCat(kNote, first_measured,
                                    " prefixes; kv_error_k, kv_error_v and hidden_error from "
                                    "the other ",
                                    options.prefixes.size() - first_measured, ", ", options.decode_positions,
                                    " decode positions each; violated lists the l whose hidden_error exceeds "
                                    "predicted.")}};
}

}  // namespace scd
