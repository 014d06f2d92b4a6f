// What a consumer demands of its producer: the base model, the tokenizer and the bundle that its own
// translators were fitted for, and an answer to exactly what was asked.
#ifndef SCD_CONSUMER_HANDSHAKE_H_
#define SCD_CONSUMER_HANDSHAKE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bundle/manifest.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"
#include "scd/v1/producer.pb.h"

namespace scd {

struct PeerIdentity {
  Digest model;
  Digest tokenizer;
  Digest bundle;
  std::string architecture;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
};

PeerIdentity ExpectedProducer(const BundleManifest& manifest, const Digest& bundle);

// FAILED_PRECONDITION naming the first field that differs, with both values.
absl::Status CheckProducerInfo(const PeerIdentity& expected, const v1::ProducerInfo& info);

// What was asked of a producer, as far as its header must agree.
struct ExpectedHeader {
  Digest model;
  Digest bundle;
  LayerPlan plan;
  std::int64_t first_token = 0;
  std::int64_t end_token = 0;
  std::int64_t max_uncoded_tokens = 0;
};

struct CodeHeader {
  std::int64_t end_token = 0;      // codes are sent for [first_token, end_token)
  std::int64_t stored_tokens = 0;  // of these, from the producer's code store
};

// FAILED_PRECONDITION for digests, INVALID_ARGUMENT for anything else that does not fit.
absl::StatusOr<CodeHeader> CheckHeader(const ExpectedHeader& expected, const v1::PrefillHeader& header);

}  // namespace scd

#endif  // SCD_CONSUMER_HANDSHAKE_H_
