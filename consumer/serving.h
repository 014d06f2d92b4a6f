// What the consumer's calls work with. Everything in it outlives every call.
#ifndef SCD_CONSUMER_SERVING_H_
#define SCD_CONSUMER_SERVING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/model_config.h"
#include "common/model/tokenizer.h"
#include "common/server/log.h"
#include "common/server/request_tracker.h"
#include "common/trace/trace_folder.h"
#include "consumer/byte_budget.h"
#include "consumer/consumer_metrics.h"
#include "consumer/engine.h"
#include "consumer/generate_request.h"
#include "consumer/prefix_keys.h"
#include "consumer/prompt_encoder.h"
#include "consumer/prompt_registry.h"
#include "consumer/served_prompt.h"
#include "consumer/task_thread.h"
#include "consumer/transfer_choice.h"
#include "consumer/transfer_client.h"

namespace scd {

struct Serving {
  const ModelConfig& config;
  const Tokenizer& tokenizer;
  const PromptEncoder& encoder;
  Engine& engine;
  ConsumerMetrics& metrics;
  RequestTracker& requests;
  Log& log;
  TransferClient* transfers = nullptr;  // null without a bundle
  TransferDefaults transfer;
  std::vector<std::int32_t> untranslatable_ids;  // sorted
  std::int64_t max_uncoded_tokens = 0;
  PrefixKeys prefix_keys;
  GenerateLimits generate;
  std::int64_t max_unsent_tokens = 1024;
  TaskThread& score_thread;
  ByteBudget& score_logits;
  PromptRegistry& prompts;
  TraceFolder* traces = nullptr;  // null: requests are not traced
  std::atomic<std::uint64_t> next_request{1};

  // The request's own id, or one made up where it has none.
  std::string RequestId(const std::string& given) {
    return given.empty() ? "consumer-" + std::to_string(next_request++) : given;
  }

  // Fills everything about the transfer into a prompt to serve; the error of a policy `require` that cannot
  // be met.
  absl::Status Decide(const TransferChoice& choice, PromptToServe& prompt) const;
};

}  // namespace scd

#endif  // SCD_CONSUMER_SERVING_H_
