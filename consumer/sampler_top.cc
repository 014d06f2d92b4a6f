// Sampling from the best logits of a position, where those are enough.
#include <algorithm>
#include <cmath>
#include <limits>

#include "consumer/sampler.h"

namespace scd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

void Sampler::CertainCandidates(const TopOfRow& top, absl::Span<const std::int32_t> seen) {
  const bool whole = static_cast<std::int64_t>(top.ids.size()) == top.vocabulary;
  candidates_.clear();
  for (std::size_t i = 0; i < top.ids.size(); ++i) candidates_.push_back({top.ids[i], top.logits[i]});
  if (params_.repetition_penalty == 1.0f) return;
  for (Candidate& candidate : candidates_) {
    if (std::find(seen.begin(), seen.end(), candidate.id) != seen.end()) {
      candidate.logit = Penalised(candidate.logit);
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  if (whole) return;
  // No other logit is above the last of the best; a penalty below 1 may have lifted any of them.
  const float others = params_.repetition_penalty > 1.0f ? top.logits.back() : kInfinity;
  while (!candidates_.empty() && candidates_.back().logit <= others) candidates_.pop_back();
}

bool Sampler::CutCertain(const TopOfRow& top) {
  const bool whole = static_cast<std::int64_t>(candidates_.size()) == top.vocabulary;
  const bool k_cuts = params_.top_k > 0 && params_.top_k <= static_cast<std::int64_t>(candidates_.size());
  if (k_cuts) candidates_.resize(static_cast<std::size_t>(params_.top_k));
  // Where all that top_k leaves is here, the rest is as with the whole row.
  if (whole || k_cuts) {
    Cut(candidates_.front().logit);
    return true;
  }
  // Else what is here must hold all that top_p or min_p leave. top_p counts what top_k leaves, which is not
  // here; the sum over the vocabulary is of the logits without a penalty.
  const bool p_cuts = params_.top_p < 1.0f && params_.top_k == 0 && params_.repetition_penalty == 1.0f;
  if (params_.top_p < 1.0f && !p_cuts) return false;
  const double enough = p_cuts ? double{params_.top_p} * double{top.tempered_sum} : double{kInfinity};
  weights_.clear();
  double sum = 0.0;
  for (const Candidate& candidate : candidates_) {
    const double weight = Weight(candidate.logit, candidates_.front().logit);
    if (weight < params_.min_p) return true;
    sum += weight;
    weights_.push_back(weight);
    if (sum >= enough) return true;
  }
  return false;
}

absl::StatusOr<std::optional<SampledToken>> Sampler::SampleTop(const TopOfRow& top,
                                                               absl::Span<const std::int32_t> seen) {
  if (!std::isfinite(top.sum) || !std::isfinite(top.tempered_sum) || top.ids.empty()) {
    return absl::InternalError("sampling: the logits hold NaN or +infinity, or none is finite");
  }
  const auto num_top = std::min<std::int64_t>(params_.num_top_logprobs, top.vocabulary);
  if (num_top > static_cast<std::int64_t>(top.ids.size())) return std::optional<SampledToken>();
  CertainCandidates(top, seen);
  if (candidates_.empty()) return std::optional<SampledToken>();
  SampledToken token;
  if (params_.temperature == 0.0f) {
    token.id = candidates_.front().id;
  } else if (params_.top_k == 0 && params_.top_p == 1.0f && params_.min_p == 0.0f) {
    return std::optional<SampledToken>();  // any token can be drawn
  } else {
    if (!CutCertain(top)) return std::optional<SampledToken>();
    token.id = Choose();
  }
  const double log_total = top.logits.front() + std::log(double{top.sum});
  const auto place = std::find(top.ids.begin(), top.ids.end(), token.id) - top.ids.begin();
  token.logprob = static_cast<float>(top.logits[static_cast<std::size_t>(place)] - log_total);
  for (std::size_t i = 0; i < static_cast<std::size_t>(num_top); ++i) {
    token.top.push_back({top.ids[i], static_cast<float>(top.logits[i] - log_total)});
  }
  return std::optional<SampledToken>(std::move(token));
}

}  // namespace scd
