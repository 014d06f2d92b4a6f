#include "eval/datasets/record_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/io/json.h"
#include "eval/datasets/record_fields.h"

namespace scd {

absl::StatusOr<nlohmann::json> ParseRecord(const JsonPart& part, const std::string& path) {
  if (!part.complete) return FieldError(path, "the file ends inside this record");
  if (part.text.size() > kMaxRecordBytes)
    return FieldError(path, absl::StrCat("has ", part.text.size(), " bytes, more than ", kMaxRecordBytes));
  absl::StatusOr<nlohmann::json> json = ParseJson(part.text, path);
  if (json.ok()) return json;
  return FieldError(path, absl::StripPrefix(json.status().message(), absl::StrCat(path, ": ")));
}

std::optional<LineCutter::Line> LineCutter::Next() {
  while (!rest_.empty()) {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const absl::string_view line = absl::StripAsciiWhitespace(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    if (!line.empty()) return Line{absl::StrCat("line ", number_), line};
  }
  return std::nullopt;
}

}  // namespace scd
