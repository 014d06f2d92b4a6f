// Openings that self-sampled prefixes start from.
//
// A file of prompts, separated by empty lines; lines that start with # are comments. "{40}" in a prompt
// stands for up to 40 sampled tokens, which end early at a line end once half of them are there; a prompt
// without such a mark is continued to the length that the configuration asks for.
#ifndef SCD_CALIBRATE_SEED_PROMPTS_H_
#define SCD_CALIBRATE_SEED_PROMPTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scd {

// A piece of text, or a number of tokens to sample.
struct SeedPart {
  std::string text;
  std::int64_t num_sampled = 0;  // 0: text

  friend bool operator==(const SeedPart&, const SeedPart&) = default;
};
using SeedPrompt = std::vector<SeedPart>;

// INVALID_ARGUMENT naming `origin` and the line.
absl::StatusOr<std::vector<SeedPrompt>> ParseSeedPrompts(absl::string_view text, const std::string& origin);

}  // namespace scd

#endif  // SCD_CALIBRATE_SEED_PROMPTS_H_
