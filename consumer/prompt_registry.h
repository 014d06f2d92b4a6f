// The prompts that are being served, so that all of them can be ended when the server goes down.
#ifndef SCD_CONSUMER_PROMPT_REGISTRY_H_
#define SCD_CONSUMER_PROMPT_REGISTRY_H_

#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace scd {

class ServedPrompt;

// Thread-safe.
class PromptRegistry {
 public:
  void Add(const std::shared_ptr<ServedPrompt>& prompt);
  void Remove(const ServedPrompt* prompt);
  // Ends every prompt that is here with this status.
  void CancelAll(const absl::Status& status);

 private:
  absl::Mutex mutex_;
  std::map<const ServedPrompt*, std::weak_ptr<ServedPrompt>> prompts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd

#endif  // SCD_CONSUMER_PROMPT_REGISTRY_H_
