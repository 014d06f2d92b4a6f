// From the text of a file to its records: lines of JSONL, parsed parts of a document.
#ifndef SCD_EVAL_DATASETS_RECORD_TEXT_H_
#define SCD_EVAL_DATASETS_RECORD_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval/datasets/json_split.h"
#include "nlohmann/json.hpp"

namespace scd {

// The longest text of one record (an article of SQuAD with all its questions is one here).
inline constexpr std::size_t kMaxRecordBytes = std::size_t{32} << 20;

// FieldError at `path` for what is no JSON, too long, or cut off by the file's end.
absl::StatusOr<nlohmann::json> ParseRecord(const JsonPart& part, const std::string& path);

// Lines that are not empty, with their numbers from 1.
class LineCutter {
 public:
  explicit LineCutter(absl::string_view text) : rest_(text) {}

  struct Line {
    std::string path;  // "line 7"
    absl::string_view text;
  };
  std::optional<Line> Next();

 private:
  absl::string_view rest_;
  std::int64_t number_ = 0;
};

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_RECORD_TEXT_H_
