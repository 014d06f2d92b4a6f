#include "consumer/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int32_t kMaxTopLogprobs = 20;
// Candidates sorted at first; doubled until the cuts are satisfied, so that a vocabulary is hardly ever
// sorted whole.
constexpr std::size_t kFirstSorted = 256;

template <typename T>
absl::Status OutOfRange(absl::string_view field, T value, absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrCat("sampling: ", field, " is ", value, ", expected ", range));
}

// NaN is in no range.
bool InRange(float value, float low, float high) {
  return value >= low && value <= high;
}

struct Distribution {
  float best_logit = 0.0f;
  double log_total = 0.0;  // log of the sum of exp(logit)
};

absl::StatusOr<Distribution> Measure(absl::Span<const float> logits) {
  Distribution d;
  d.best_logit = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  for (const float logit : logits) {
    has_nan = has_nan || std::isnan(logit);
    d.best_logit = std::max(d.best_logit, logit);
  }
  if (has_nan || !std::isfinite(d.best_logit)) {
    return absl::InternalError("sampling: the logits hold NaN or +infinity, or none is finite");
  }
  double total = 0.0;
  for (const float logit : logits) total += std::exp(double{logit} - d.best_logit);
  d.log_total = d.best_logit + std::log(total);
  return d;
}

std::vector<TokenLogprob> BestTokens(absl::Span<const float> logits, std::int32_t count, double log_total) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const std::size_t n = std::min<std::size_t>(static_cast<std::size_t>(count), ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n), ids.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float la = logits[static_cast<std::size_t>(a)];
                      const float lb = logits[static_cast<std::size_t>(b)];
                      return la != lb ? la > lb : a < b;
                    });
  std::vector<TokenLogprob> best;
  for (std::size_t i = 0; i < n; ++i) {
    best.push_back({ids[i], static_cast<float>(logits[static_cast<std::size_t>(ids[i])] - log_total)});
  }
  return best;
}

}  // namespace

absl::Status SamplingParams::Validate() const {
  if (!InRange(temperature, 0.0f, 100.0f)) return OutOfRange("temperature", temperature, "[0, 100]");
  if (top_k < 0) return OutOfRange("top_k", top_k, "at least 0");
  if (!InRange(top_p, 0.0f, 1.0f) || top_p == 0.0f) return OutOfRange("top_p", top_p, "(0, 1]");
  if (!InRange(min_p, 0.0f, 1.0f) || min_p == 1.0f) return OutOfRange("min_p", min_p, "[0, 1)");
  if (!InRange(repetition_penalty, 0.01f, 100.0f)) {
    return OutOfRange("repetition_penalty", repetition_penalty, "[0.01, 100]");
  }
  if (num_top_logprobs < 0 || num_top_logprobs > kMaxTopLogprobs) {
    return OutOfRange("num_top_logprobs", num_top_logprobs, absl::StrCat("0 to ", kMaxTopLogprobs));
  }
  return absl::OkStatus();
}

Sampler::Sampler(const SamplingParams& params) : params_(params), random_(params.seed) {}

void Sampler::Penalise(absl::Span<const float> logits, absl::Span<const std::int32_t> seen) {
  adjusted_.assign(logits.begin(), logits.end());
  if (params_.repetition_penalty == 1.0f) return;
  for (const std::int32_t id : seen) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    // From the original logit: a token that was seen twice is penalised once.
    adjusted_[static_cast<std::size_t>(id)] = Penalised(logits[static_cast<std::size_t>(id)]);
  }
}

float Sampler::Penalised(float logit) const {
  return logit > 0.0f ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
}

double Sampler::Weight(float logit, float best_logit) const {
  // The difference first, in double: no temperature makes it overflow.
  return std::exp((double{logit} - best_logit) / params_.temperature);
}

void Sampler::Cut(float best_logit) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (params_.top_k > 0 && static_cast<std::size_t>(params_.top_k) < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + params_.top_k, candidates_.end(), better);
    candidates_.resize(static_cast<std::size_t>(params_.top_k));
  }
  double total = 0.0;
  for (const Candidate& c : candidates_) total += Weight(c.logit, best_logit);
  const double enough =
      params_.top_p < 1.0f ? params_.top_p * total : std::numeric_limits<double>::infinity();

  weights_.clear();
  double sum = 0.0;
  std::size_t sorted = 0;
  for (std::size_t i = 0; i < candidates_.size() && sum < enough; ++i) {
    if (i == sorted) {
      sorted = std::min(candidates_.size(), std::max(kFirstSorted, 2 * sorted));
      std::partial_sort(candidates_.begin() + static_cast<std::ptrdiff_t>(i),
                        candidates_.begin() + static_cast<std::ptrdiff_t>(sorted), candidates_.end(), better);
    }
    const double w = Weight(candidates_[i].logit, best_logit);
    if (w < params_.min_p) break;
    sum += w;
    weights_.push_back(w);
  }
}

std::int32_t Sampler::Draw(float best_logit) {
  candidates_.clear();
  candidates_.reserve(adjusted_.size());
  for (std::size_t i = 0; i < adjusted_.size(); ++i) {
    candidates_.push_back({static_cast<std::int32_t>(i), adjusted_[i]});
  }
  if (params_.top_k == 0 && params_.top_p == 1.0f && params_.min_p == 0.0f) {
    weights_.clear();
    for (const Candidate& c : candidates_) weights_.push_back(Weight(c.logit, best_logit));
  } else {
    Cut(best_logit);
  }
  return Choose();
}

std::int32_t Sampler::Choose() {
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  const double point = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  double sum = 0.0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0.0) continue;
    chosen = i;
    sum += weights_[i];
    if (point < sum) break;
  }
  return candidates_[chosen].id;
}

absl::StatusOr<SampledToken> Sampler::Sample(absl::Span<const float> logits,
                                             absl::Span<const std::int32_t> seen) {
  SCD_ASSIGN_OR_RETURN(const Distribution distribution, Measure(logits));
  Penalise(logits, seen);
  const auto best = std::max_element(adjusted_.begin(), adjusted_.end());
  SampledToken token;
  token.id = params_.temperature == 0.0f ? static_cast<std::int32_t>(best - adjusted_.begin()) : Draw(*best);
  token.logprob = static_cast<float>(logits[static_cast<std::size_t>(token.id)] - distribution.log_total);
  if (params_.num_top_logprobs > 0) {
    token.top = BestTokens(logits, params_.num_top_logprobs, distribution.log_total);
  }
  return token;
}

}  // namespace scd
