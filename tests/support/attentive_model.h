// tests/data/tiny-llama with larger weights: as it is, its logits hardly depend on what attention reads, so
// that tests of a KV cache would pass with any cache at all.
#ifndef SCD_TESTS_SUPPORT_ATTENTIVE_MODEL_H_
#define SCD_TESTS_SUPPORT_ATTENTIVE_MODEL_H_

#include <string>

#include "absl/status/status.h"

namespace scd::testing {

// A Hugging Face folder that is to be made; the same bytes with each call.
absl::Status WriteAttentiveModel(const std::string& folder);

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_ATTENTIVE_MODEL_H_
