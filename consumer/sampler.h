// Chooses the next token from logits.
//
// In this order: repetition penalty, temperature, top_k, top_p over what top_k left, min_p, then a draw.
// Equal logits are ordered by id. The draw uses one number of a 64-bit Mersenne twister, so that equal seeds
// and logits give equal tokens on every machine.
#ifndef SCD_CONSUMER_SAMPLER_H_
#define SCD_CONSUMER_SAMPLER_H_

#include <cstdint>
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

class Sampler {
 public:
  // `params` is valid.
  explicit Sampler(const SamplingParams& params);

  // logits [vocabulary] of one position; `seen`: prompt and output so far, for the repetition penalty (ids
  // outside the vocabulary are ignored). INTERNAL where a logit is NaN or +infinity, or none is finite.
  absl::StatusOr<SampledToken> Sample(absl::Span<const float> logits, absl::Span<const std::int32_t> seen);

 private:
  struct Candidate {
    std::int32_t id;
    float logit;  // after the penalty
  };

  void Penalise(absl::Span<const float> logits, absl::Span<const std::int32_t> seen);
  std::int32_t Draw(float best_logit);
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
