#include "calibrate/seed_prompts.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxSampled = 4096;

// Splits at "{digits}"; other braces are text.
absl::StatusOr<SeedPrompt> ParsePrompt(absl::string_view text, const std::string& origin) {
  SeedPrompt parts;
  std::string literal;
  while (!text.empty()) {
    std::size_t digits = 0;
    while (text[0] == '{' && digits + 1 < text.size() && absl::ascii_isdigit(text[digits + 1])) ++digits;
    if (digits == 0 || digits + 1 >= text.size() || text[digits + 1] != '}') {
      literal += text[0];
      text.remove_prefix(1);
      continue;
    }
    std::int64_t count = 0;
    if (!absl::SimpleAtoi(text.substr(1, digits), &count) || count < 1 || count > kMaxSampled) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": {", text.substr(1, digits),
                                                     "}: expected 1 to ", kMaxSampled, " sampled tokens"));
    }
    if (!literal.empty()) parts.push_back({.text = std::exchange(literal, ""), .num_sampled = 0});
    parts.push_back({.text = "", .num_sampled = count});
    text.remove_prefix(digits + 2);
  }
  if (!literal.empty()) parts.push_back({.text = std::move(literal), .num_sampled = 0});
  if (parts.front().num_sampled > 0) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": a prompt starts with text"));
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<SeedPrompt>> ParseSeedPrompts(absl::string_view text, const std::string& origin) {
  std::vector<SeedPrompt> prompts;
  std::string open;  // the prompt that is being read
  int open_line = 0;
  int line_number = 0;
  const auto close = [&]() -> absl::Status {
    if (open.empty()) return absl::OkStatus();
    SCD_ASSIGN_OR_RETURN(SeedPrompt prompt, ParsePrompt(open, absl::StrCat(origin, ":", open_line)));
    prompts.push_back(std::move(prompt));
    open.clear();
    return absl::OkStatus();
  };
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty() && line[0] == '#') continue;
    if (absl::StripAsciiWhitespace(line).empty()) {
      SCD_RETURN_IF_ERROR(close());
      continue;
    }
    if (open.empty()) {
      open_line = line_number;
    } else {
      open += '\n';
    }
    absl::StrAppend(&open, line);
  }
  SCD_RETURN_IF_ERROR(close());
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(origin, ": holds no prompt"));
  return prompts;
}

}  // namespace scd
