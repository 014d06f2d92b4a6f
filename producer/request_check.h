// Checks a PrefillRequest, which is outside input, and turns it into what the engine runs.
#ifndef SCD_PRODUCER_REQUEST_CHECK_H_
#define SCD_PRODUCER_REQUEST_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/io/digest.h"
#include "producer/encoder_cache.h"
#include "producer/prefill_job.h"
#include "scd/v1/producer.pb.h"

namespace scd {

// What requests are checked against.
struct ServedModel {
  Digest digest;
  std::int64_t vocab_size = 0;
  std::int64_t max_prompt_tokens = 0;
  const BundleSet* bundles = nullptr;
};

// INVALID_ARGUMENT naming the field and what is allowed, FAILED_PRECONDITION for a bundle that is not served.
// The result has no block keys.
absl::StatusOr<PrefillInput> CheckPrefillRequest(const v1::PrefillRequest& request,
                                                 const ServedModel& served);

}  // namespace scd

#endif  // SCD_PRODUCER_REQUEST_CHECK_H_
