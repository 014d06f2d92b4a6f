// Continues a batch of seed prompts with one model, all of them decoded together.
#ifndef SCD_CALIBRATE_SAMPLING_BATCH_H_
#define SCD_CALIBRATE_SAMPLING_BATCH_H_

#include <cstdint>
#include <memory>
#include <random>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cache/paged_kv_cache.h"
#include "common/model/transformer.h"

namespace scd {

// One prefix in the making: pieces of ids and numbers of tokens to sample, in order.
struct SamplingJob {
  struct Part {
    std::vector<std::int32_t> ids;
    std::int64_t num_sampled = 0;
  };
  std::vector<Part> parts;
  std::int64_t max_tokens = 0;  // the prefix is cut there
  double temperature = 1.0;
  std::uint64_t seed = 0;
};

class SamplingBatch {
 public:
  // banned: ids that are never sampled, at most the vocabulary's size; ids beyond it are banned too.
  // ends_line: ids whose text holds a line end. All outlive this.
  SamplingBatch(const Transformer& model, const std::vector<bool>& banned,
                const std::vector<bool>& ends_line);

  // The prefixes of the jobs, in their order.
  absl::StatusOr<std::vector<std::vector<std::int32_t>>> Run(absl::Span<const SamplingJob> jobs,
                                                             std::stop_token stop);

 private:
  const Transformer& model_;
  const std::vector<bool>& banned_;
  const std::vector<bool>& ends_line_;
};

// Draws from softmax(logits / temperature) over the ids that are not banned.
std::int32_t SampleToken(absl::Span<const float> logits, const std::vector<bool>& banned, double temperature,
                         std::mt19937_64& random);

}  // namespace scd

#endif  // SCD_CALIBRATE_SAMPLING_BATCH_H_
