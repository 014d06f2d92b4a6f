#include "eval/datasets/lm_dataset.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/io/mapped_file.h"
#include "eval/datasets/json_split.h"
#include "eval/datasets/lm_readers.h"
#include "eval/datasets/source_text.h"
#include "kernels/status_macros.h"

namespace scd {

std::string LmFormatName(LmFormat format) {
  return format == LmFormat::kText ? "text" : "jsonl";
}

std::optional<LmFormat> ParseLmFormat(std::string_view name) {
  for (const LmFormat format : {LmFormat::kText, LmFormat::kJsonl}) {
    if (LmFormatName(format) == name) return format;
  }
  return std::nullopt;
}

std::vector<std::string> LmFormatNames() {
  return {LmFormatName(LmFormat::kText), LmFormatName(LmFormat::kJsonl)};
}

absl::StatusOr<LmFormat> DetectLmFormat(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::StartsWith(text, "{")) return LmFormat::kText;
  const absl::StatusOr<JsonMembers> line = CutJsonObject(text.substr(0, text.find('\n')));
  if (line.ok() && (line->Find("prefix_ids") != nullptr || line->Find("prefix") != nullptr))
    return LmFormat::kJsonl;
  return absl::InvalidArgumentError(absl::StrCat("begins like JSON, but not with a window; name its format: ",
                                                 absl::StrJoin(LmFormatNames(), ", ")));
}

absl::StatusOr<Dataset<LmItem>> ReadLmDataset(const std::string& path, std::optional<LmFormat> format,
                                              const TextWindows& windows, const ReadOptions& options) {
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const absl::string_view text = WithoutByteOrderMark(file->text());
  if (!format) {
    const absl::StatusOr<LmFormat> detected = DetectLmFormat(text);
    if (!detected.ok()) return AtFile(path, detected.status());
    format = *detected;
  }
  LmCollector collector(path, options);
  SCD_RETURN_IF_ERROR(AtFile(path, *format == LmFormat::kText ? ReadTextWindows(text, windows, &collector)
                                                              : ReadLmJsonl(text, &collector)));
  Dataset<LmItem> dataset = collector.Take(LmFormatName(*format));
  if (dataset.items.empty() && dataset.num_malformed == 0)
    return absl::InvalidArgumentError(absl::StrCat(path, ": holds no window (read as ", dataset.format, ")"));
  return dataset;
}

}  // namespace scd
