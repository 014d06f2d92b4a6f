#include "consumer/prompt_registry.h"

#include <vector>

#include "consumer/served_prompt.h"

namespace scd {

void PromptRegistry::Add(const std::shared_ptr<ServedPrompt>& prompt) {
  absl::MutexLock lock(&mutex_);
  prompts_[prompt.get()] = prompt;
}

void PromptRegistry::Remove(const ServedPrompt* prompt) {
  absl::MutexLock lock(&mutex_);
  prompts_.erase(prompt);
}

void PromptRegistry::CancelAll(const absl::Status& status) {
  std::vector<std::shared_ptr<ServedPrompt>> prompts;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, weak] : prompts_) {
      if (std::shared_ptr<ServedPrompt> prompt = weak.lock()) prompts.push_back(std::move(prompt));
    }
  }
  for (const auto& prompt : prompts) prompt->Cancel(status);
}

}  // namespace scd
