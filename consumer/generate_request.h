// A GenerateRequest, checked: every limit and range, with the field's name in the error.
#ifndef SCD_CONSUMER_GENERATE_REQUEST_H_
#define SCD_CONSUMER_GENERATE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consumer/prompt_encoder.h"
#include "consumer/sampler.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

struct GenerateLimits {
  std::int64_t default_max_tokens = 256;
  std::int64_t max_tokens = 4096;
  std::int64_t max_positions = 0;           // of prompt and answer together
  std::vector<std::int32_t> end_token_ids;  // the model's own
};

struct CheckedGenerate {
  std::vector<std::int32_t> prompt;
  std::int64_t max_tokens = 0;
  SamplingParams sampling;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;  // the model's own unless ignore_eos, and the request's
};

// INVALID_ARGUMENT naming the field, and what PromptEncoder answers.
absl::StatusOr<CheckedGenerate> CheckGenerate(const v1::GenerateRequest& request,
                                              const PromptEncoder& encoder, const GenerateLimits& limits);

// Request ids come back in logs here and at the producer. INVALID_ARGUMENT for more than 128 bytes.
absl::Status CheckRequestId(const std::string& request_id);

}  // namespace scd

#endif  // SCD_CONSUMER_GENERATE_REQUEST_H_
