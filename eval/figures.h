// What the daemons say about one request, in plain numbers: the protocol's messages stay in pair_session.
#ifndef SCD_EVAL_FIGURES_H_
#define SCD_EVAL_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace scd {

// Milliseconds since the request arrived, or spent in a stage (scd.v1.TransferReport).
struct StageTimes {
  double queue = 0;
  double producer_queue = 0;
  double producer_prefill = 0;
  double producer_encode = 0;
  double first_frame = 0;
  double transfer = 0;
  double rebuild = 0;
  double native = 0;
};

struct TransferFigures {
  std::string mode;    // that served
  std::string reason;  // why it is not the one that was asked for; else empty
  std::string detail;
  std::int64_t prompt_tokens = 0;
  std::int64_t transferred_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t stored_tokens = 0;   // of the transferred ones, taken from the producer's code store
  std::int64_t received_bytes = 0;  // serialized messages
  std::int64_t code_bytes = 0;      // payload of frames
  std::int64_t raw_kv_bytes = 0;    // the whole prompt's KV in bf16
  StageTimes stages;
  double first_token_ms = 0;  // TTFT
};

// One position of a continuation; the last predicts what would follow and has no token of its own.
struct PositionFigures {
  double logprob = 0;  // of the token, nats
  double kl = 0;       // KL(native || this), nats
  double tv = 0;       // total variation, in [0, 1]
  double native_logprob = 0;
};

struct ScoredText {
  std::vector<PositionFigures> positions;  // one more than the continuation has tokens
  TransferFigures transfer;
};

struct GeneratedText {
  std::string text;
  std::vector<std::int32_t> token_ids;
  TransferFigures transfer;
};

// A prompt as text or as token ids: exactly one is not empty.
struct EvalPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
};

}  // namespace scd

#endif  // SCD_EVAL_FIGURES_H_
