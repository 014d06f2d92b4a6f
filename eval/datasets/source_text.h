// Small things that every reader of a whole file does.
#ifndef SCD_EVAL_DATASETS_SOURCE_TEXT_H_
#define SCD_EVAL_DATASETS_SOURCE_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace scd {

inline absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xEF\xBB\xBF");
}

// The status with the file's path before its message.
inline absl::Status AtFile(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_SOURCE_TEXT_H_
