// Chooses the next token from logits.
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
  float temperature = 0.0f;         // 0: greedy (the first of equal logits)
  std::int32_t top_k = 0;           // 0: all
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1): tokens under min_p x the best probability are out
  float repetition_penalty = 1.0f;  // > 0; divides positive and multiplies negative logits of tokens seen so far
  std::uint64_t seed = 0;           // equal seeds give equal tokens for equal logits
  std::int32_t num_top_logprobs = 0;  // [0, 20]

  absl::Status Validate() const;  // INVALID_ARGUMENT naming the field and its range
};

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0.0f;  // of the model's own distribution, before temperature and cuts, in nats
};

struct SampledToken {
  std::int32_t id = 0;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;  // num_top_logprobs best, best first
};

class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);

  // logits [vocabulary] of one position; `seen`: prompt and output so far, for the repetition penalty.
  // INTERNAL where a logit is NaN.
  absl::StatusOr<SampledToken> Sample(absl::Span<const float> logits, absl::Span<const std::int32_t> seen);

 private:
  const SamplingParams params_;
  std::mt19937_64 random_;
  std::vector<float> scratch_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_SAMPLER_H_
