// Chooses the next token from logits.
//
// In this order: repetition penalty, temperature, top_k, top_p over what top_k left, min_p, then a draw.
// Equal logits are ordered by id. The draw uses one number of a 64-bit Mersenne twister, so that equal seeds
// and logits give equal tokens on every machine.
#ifndef SCD_CONSUMER_SAMPLER_H_
#define SCD_CONSUMER_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace scd {

struct SamplingParams {
  float temperature = 0.0f;  // [0, 100]; 0: greedy (the first of equal logits)
  std::int32_t top_k = 0;    // 0: all
  float top_p = 1.0f;        // (0, 1]
  float min_p = 0.0f;        // [0, 1): tokens under min_p x the best probability are out
  float repetition_penalty =
      1.0f;  // [0.01, 100]; divides positive and multiplies negative logits of tokens seen so far
  std::uint64_t seed = 0;             // equal seeds give equal tokens for equal logits
  std::int32_t num_top_logprobs = 0;  // [0, 20]

  absl::Status Validate() const;  // INVALID_ARGUMENT naming the field and its range
};

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0.0f;  // of the model's own distribution, before penalty, temperature and cuts, in nats
};

struct SampledToken {
  std::int32_t id = 0;
  float logprob = 0.0f;           // as in TokenLogprob
  std::vector<TokenLogprob> top;  // num_top_logprobs best, best first
};

// The best logits of one position and the sums of its softmax, as Backend::TopLogits finds them at the
// sampler's temperature.
struct TopOfRow {
  absl::Span<const float> logits;  // best first, equal ones by id
  absl::Span<const std::int32_t> ids;
  float sum = 0.0f;           // over the vocabulary of exp(logit - best)
  float tempered_sum = 0.0f;  // and of exp((logit - best) / temperature)
  std::int64_t vocabulary = 0;
};

class Sampler {
 public:
  // `params` is valid.
  explicit Sampler(const SamplingParams& params);

  // logits [vocabulary] of one position; `seen`: prompt and output so far, for the repetition penalty (ids
  // outside the vocabulary are ignored). INTERNAL where a logit is NaN or +infinity, or none is finite.
  absl::StatusOr<SampledToken> Sample(absl::Span<const float> logits, absl::Span<const std::int32_t> seen);

  // The same token from the best logits alone, where they are enough to tell; nothing, and no number is
  // drawn, where they are not: without cuts, with a repetition penalty that lifts others above them, where
  // top_k, top_p or min_p leave more.
  absl::StatusOr<std::optional<SampledToken>> SampleTop(const TopOfRow& top,
                                                        absl::Span<const std::int32_t> seen);

  const SamplingParams& params() const { return params_; }

 private:
  struct Candidate {
    std::int32_t id;
    float logit;  // after the penalty
  };

  // A logit of an id that was seen.
  float Penalised(float logit) const;
  void Penalise(absl::Span<const float> logits, absl::Span<const std::int32_t> seen);
  // Makes candidates_ those of the best logits that nothing else can stand between, best first.
  void CertainCandidates(const TopOfRow& top, absl::Span<const std::int32_t> seen);
  // Keeps of them and weighs what the cuts leave; false where that may be more than they are.
  bool CutCertain(const TopOfRow& top);
  std::int32_t Draw(float best_logit);
  // One of the first candidates, by weights_.
  std::int32_t Choose();
  // Probability of a logit relative to that of the best one, at the temperature.
  double Weight(float logit, float best_logit) const;
  // The first candidates, best first, that top_k, top_p and min_p leave; their weights go to weights_.
  void Cut(float best_logit);

  const SamplingParams params_;
  std::mt19937_64 random_;
  // Scratch of one call, kept to spare allocations.
  std::vector<float> adjusted_;  // [vocabulary] logits after the penalty
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;  // of candidates_, not normalised
};

}  // namespace scd

#endif  // SCD_CONSUMER_SAMPLER_H_
