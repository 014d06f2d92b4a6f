#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/model/tokenizer.h"
#include "eval/datasets/lm_readers.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<TextWindows> WindowsFor(const Tokenizer& tokenizer, std::int64_t prefix_tokens,
                                       std::int64_t continuation_tokens) {
  TextWindows windows;
  windows.prefix_tokens = prefix_tokens;
  windows.continuation_tokens = continuation_tokens;
  windows.tokenize = [&tokenizer](std::string_view text) {
    return tokenizer.Encode(text, {.allow_special_tokens = false, .add_default_tokens = false});
  };
  // What stands around a text is what its ids have more with the default tokens; the part before it leads.
  constexpr std::string_view kProbe = "a";
  SCD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> plain, windows.tokenize(kProbe));
  SCD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> around, tokenizer.Encode(kProbe, {}));
  const auto text = std::search(around.begin(), around.end(), plain.begin(), plain.end());
  if (text == around.end())
    return absl::InternalError("the tokenizer's default tokens change the ids of the text between them");
  windows.leading_ids.assign(around.begin(), text);
  return windows;
}

absl::Status ReadTextWindows(absl::string_view text, const TextWindows& windows, LmCollector* collector) {
  const auto num_leading = static_cast<std::int64_t>(windows.leading_ids.size());
  const std::int64_t from_text = windows.prefix_tokens - num_leading;
  if (from_text < 1 || windows.continuation_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("windows of ", windows.prefix_tokens, " and ", windows.continuation_tokens, " tokens, ",
                     num_leading, " of them before the text: each part needs one of the text"));
  }
  if (text.size() > kMaxTextBytes)
    return absl::InvalidArgumentError(absl::StrCat("has ", text.size(), " bytes, more than ", kMaxTextBytes));
  SCD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, windows.tokenize({text.data(), text.size()}));
  const auto num_tokens = static_cast<std::int64_t>(ids.size());
  // Compared by division: the sum of two large counts may not fit.
  if (from_text > num_tokens || windows.continuation_tokens > num_tokens - from_text) {
    return absl::InvalidArgumentError(absl::StrCat("has ", num_tokens, " tokens, fewer than one window of ",
                                                   from_text, " and ", windows.continuation_tokens));
  }
  const std::int64_t size = from_text + windows.continuation_tokens;
  for (std::int64_t begin = 0; begin + size <= num_tokens && !collector->full(); begin += size) {
    const auto at = ids.begin() + begin;
    std::vector<std::int32_t> prefix = windows.leading_ids;
    prefix.insert(prefix.end(), at, at + from_text);
    std::vector<std::int32_t> continuation(at + from_text, at + size);
    const std::size_t bytes = (prefix.size() + continuation.size()) * sizeof(ids[0]);
    SCD_RETURN_IF_ERROR(
        collector->Add({absl::StrCat("token ", begin), std::move(prefix), std::move(continuation)}, bytes));
  }
  return absl::OkStatus();
}

}  // namespace scd
