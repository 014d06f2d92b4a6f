// One prompt's way through transfer and engine: starts the transfer when the engine has admitted the request,
// and acts by the policy when it fails.
#ifndef SCD_CONSUMER_SERVED_PROMPT_H_
#define SCD_CONSUMER_SERVED_PROMPT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/config/layer_plan.h"
#include "common/config/policy.h"
#include "consumer/consumer_metrics.h"
#include "consumer/engine.h"
#include "consumer/prompt_registry.h"
#include "consumer/transfer_client.h"
#include "consumer/transfer_decision.h"

namespace scd {

// What happened to a prompt that was served.
struct ServingRecord {
  std::string mode;         // that served: the one that was asked for, or "local"
  TransferOutcome outcome;  // why that is not the mode that was asked for
  std::int64_t prompt_tokens = 0;
  std::int64_t transferred_tokens = 0;
  TransferStats transfer;
  EngineTimings engine;
};

// Hears from the engine's thread; must not block.
class ServedPromptSink {
 public:
  virtual ~ServedPromptSink() = default;
  virtual bool OnToken(const SampledToken& token) = 0;
  virtual void OnLogits(std::int64_t first_row, ConstTensorView logits) = 0;
  // The last call, exactly once.
  virtual void OnDone(const absl::Status& status, FinishReason reason, const ServingRecord& record) = 0;
};

struct PromptToServe {
  std::string request_id;
  EngineRequest engine;  // staged_begin and staged_end are set from `decision`
  TransferDecision decision;
  // Needed where decision.range is not empty.
  std::string mode;
  TransferClient* transfers = nullptr;
  TransferPolicy policy = TransferPolicy::kPrefer;
  LayerPlan plan;
  absl::Duration transfer_timeout = absl::InfiniteDuration();
  std::int64_t max_uncoded_tokens = 0;
  bool no_code_store = false;
};

class ServedPrompt final : public EngineObserver, public std::enable_shared_from_this<ServedPrompt> {
 public:
  // Errors of Engine::Submit. `engine`, `metrics`, `registry` and the transfer client outlive the call and
  // its transfer.
  static absl::StatusOr<std::shared_ptr<ServedPrompt>> Submit(Engine& engine, ConsumerMetrics& metrics,
                                                              PromptRegistry& registry, PromptToServe prompt,
                                                              std::shared_ptr<ServedPromptSink> sink);

  // Ends it soon with this status, transfer included. Any thread, any number of times.
  void Cancel(const absl::Status& status);

 private:
  ServedPrompt(Engine& engine, ConsumerMetrics& metrics, PromptRegistry& registry, PromptToServe prompt,
               std::shared_ptr<ServedPromptSink> sink);

  void OnWaitedForBlocks(std::chrono::nanoseconds waited) override {
    waited_for_blocks_ = absl::FromChrono(waited);
  }
  void OnAdmitted(EngineRequestId id, std::shared_ptr<Sequence> sequence) override;
  bool OnToken(const SampledToken& token) override { return sink_->OnToken(token); }
  void OnLogits(std::int64_t first_row, ConstTensorView logits) override {
    sink_->OnLogits(first_row, logits);
  }
  void OnDone(const absl::Status& status, FinishReason reason, const EngineTimings& timings) override;

  void OnTransferred(EngineRequestId id, const TransferResult& result);

  Engine& engine_;
  ConsumerMetrics& metrics_;
  PromptRegistry& registry_;
  const PromptToServe prompt_;           // prompt_.engine was moved to the engine
  std::shared_ptr<RequestTrace> trace_;  // null: not traced
  std::shared_ptr<const std::vector<std::int32_t>> tokens_;
  // Of the engine's thread.
  std::shared_ptr<ServedPromptSink> sink_;
  absl::Duration waited_for_blocks_;  // comes off the time that the transfer may take

  absl::Mutex mutex_;
  EngineRequestId id_ ABSL_GUARDED_BY(mutex_) = 0;  // 0 until the engine has answered
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Transfer> transfer_ ABSL_GUARDED_BY(mutex_);  // while it runs
  bool transfer_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  TransferResult result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_CONSUMER_SERVED_PROMPT_H_
