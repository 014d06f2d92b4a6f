// A file of texts to score: plain text (WikiText) cut into windows, or JSONL with the windows in it.
#ifndef SCD_EVAL_DATASETS_LM_DATASET_H_
#define SCD_EVAL_DATASETS_LM_DATASET_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/items.h"

namespace scd {

class Tokenizer;

enum class LmFormat { kText, kJsonl };

// "text", "jsonl".
std::string LmFormatName(LmFormat format);
std::optional<LmFormat> ParseLmFormat(std::string_view name);
std::vector<std::string> LmFormatNames();

// How plain text becomes windows.
struct TextWindows {
  // Ids of the whole text, without anything around it.
  std::function<absl::StatusOr<std::vector<std::int32_t>>(std::string_view text)> tokenize;
  // What the tokenizer puts before a prompt (<s>): every prefix begins with it.
  std::vector<std::int32_t> leading_ids;
  std::int64_t prefix_tokens = 256;  // leading_ids included
  std::int64_t continuation_tokens = 128;
};

// `tokenizer` outlives the result. Text that spells a special token is plain text.
absl::StatusOr<TextWindows> WindowsFor(const Tokenizer& tokenizer, std::int64_t prefix_tokens,
                                       std::int64_t continuation_tokens);

inline constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;  // it is tokenized as a whole

// The layout that the text shows: a first line that is an object with "prefix_ids" or "prefix" is JSONL, a
// text that does not begin with '{' is plain. INVALID_ARGUMENT naming the choices for anything else.
absl::StatusOr<LmFormat> DetectLmFormat(absl::string_view text);

// Text: windows one after the other, without overlap; what is left at the end is not used. Their ids are the
// number of the first token of each, "token 384". JSONL: {"prefix_ids": [...], "continuation_ids": [...]} or
// {"prefix": "...", "continuation": "..."} in each line, "id" if wanted. `windows` is not used.
//
// `format` absent: detected. Errors as those of ReadQaDataset, and INVALID_ARGUMENT for a text that is longer
// than kMaxTextBytes, is not UTF-8 or shorter than one window.
absl::StatusOr<Dataset<LmItem>> ReadLmDataset(const std::string& path, std::optional<LmFormat> format,
                                              const TextWindows& windows, const ReadOptions& options);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_LM_DATASET_H_
