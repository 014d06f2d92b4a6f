// Prompts from a JSONL file.
#ifndef SCD_CLIENT_BENCH_PROMPT_FILE_H_
#define SCD_CLIENT_BENCH_PROMPT_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scd/v1/consumer.pb.h"

namespace scd {

// An object in each line, with one of: "prompt" or "text" (text), "prompt_ids" or "prefix_ids" (token ids),
// or "context" and "question" (made a prompt as scd-eval does). Other fields are not read; empty lines are
// left out. INVALID_ARGUMENT naming file and line; at least one prompt.
absl::StatusOr<std::vector<v1::Prompt>> ReadPromptFile(const std::string& path);

}  // namespace scd

#endif  // SCD_CLIENT_BENCH_PROMPT_FILE_H_
