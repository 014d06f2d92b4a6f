#include "client/bench/workload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/bench/prompt_file.h"
#include "client/bench/random_stream.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::uint32_t kMinVocabulary = 16;
// Streams of random numbers, apart from those of single requests.
constexpr std::uint64_t kPrefixStream = ~std::uint64_t{0};
constexpr std::uint64_t kQuestionStreams = std::uint64_t{1} << 63;

}  // namespace

absl::StatusOr<Workload> Workload::Create(const WorkloadOptions& options, std::uint32_t vocab_size,
                                          std::uint64_t seed) {
  Workload workload(options, seed);
  if (options.prompts_file) {
    SCD_ASSIGN_OR_RETURN(workload.from_file_, ReadPromptFile(*options.prompts_file));
    return workload;
  }
  if (vocab_size < kMinVocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", vocab_size, " tokens is too small for made-up prompts"));
  }
  // Special tokens lie at either end of a vocabulary, and some ends are padding without any text.
  workload.first_id_ = std::min<std::uint32_t>(256, vocab_size / 8);
  workload.num_ids_ = vocab_size - vocab_size / 4 - workload.first_id_;
  return workload;
}

void Workload::AddRandomIds(std::uint64_t stream, std::uint32_t count, v1::Prompt* prompt) const {
  auto* ids = prompt->mutable_tokens()->mutable_ids();
  ids->Reserve(ids->size() + static_cast<int>(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    ids->Add(static_cast<std::int32_t>(first_id_ + SplitMix64(&stream) % num_ids_));
  }
}

v1::Prompt Workload::PromptOf(std::uint64_t level, std::uint64_t index) const {
  if (!from_file_.empty()) return from_file_[index % from_file_.size()];
  v1::Prompt prompt;
  if (options_.shared_prefix_tokens > 0) {
    AddRandomIds(StreamOf(seed_, level, kPrefixStream), options_.shared_prefix_tokens, &prompt);
    const std::uint64_t question = kQuestionStreams | index % options_.questions;
    AddRandomIds(StreamOf(seed_, level, question), options_.question_tokens, &prompt);
  } else {
    AddRandomIds(StreamOf(seed_, level, index), options_.prompt_tokens[index % options_.prompt_tokens.size()],
                 &prompt);
  }
  return prompt;
}

std::string Workload::Describe() const {
  if (options_.prompts_file) {
    return absl::StrCat(from_file_.size(), " prompts of ", *options_.prompts_file);
  }
  if (options_.shared_prefix_tokens > 0) {
    return absl::StrCat("a shared prefix of ", options_.shared_prefix_tokens, " tokens with ",
                        options_.questions, " different questions of ", options_.question_tokens, " tokens");
  }
  return absl::StrCat("made-up prompts of ", absl::StrJoin(options_.prompt_tokens, ", "), " tokens");
}

}  // namespace scd
