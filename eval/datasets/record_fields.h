// Typed look-ups in one record of a data set. An error keeps the path of the field apart from what is wrong
// with it, because reports show the two in columns.
#ifndef SCD_EVAL_DATASETS_RECORD_FIELDS_H_
#define SCD_EVAL_DATASETS_RECORD_FIELDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace scd {

// INVALID_ARGUMENT whose message is `what` and whose path FieldPath gives.
absl::Status FieldError(absl::string_view path, absl::string_view what);
// The path of a FieldError; `otherwise` for any other error.
std::string FieldPath(const absl::Status& error, absl::string_view otherwise);

// A JSON value of a whole record or a part of it, with its path. The JSON outlives this.
class RecordField {
 public:
  RecordField(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_string() const { return value_->is_string(); }

  // Of an object. A field that is null counts as absent.
  bool Has(const char* key) const;
  absl::StatusOr<RecordField> Field(const char* key) const;

  // The value itself, of the right type.
  absl::Status ExpectObject() const;
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<std::vector<RecordField>> List() const;
  absl::StatusOr<std::vector<std::string>> Strings() const;
  absl::StatusOr<std::vector<std::int32_t>> TokenIds() const;  // at least one
  absl::Status ExpectInt() const;

  // Field and value in one.
  absl::StatusOr<std::string> String(const char* key) const;
  absl::StatusOr<std::vector<RecordField>> List(const char* key) const;

  absl::Status Error(absl::string_view what) const { return FieldError(path_, what); }

 private:
  std::string PathOf(const char* key) const;
  absl::Status Mismatch(absl::string_view expected) const;

  const nlohmann::json* value_;
  std::string path_;
};

// References longer than this, or more of them, are no answers: scoring is quadratic in their lengths.
inline constexpr std::size_t kMaxReferenceBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxReferences = 1000;

// A FieldError at `path` where references are too many or too long.
absl::Status CheckReferences(const std::vector<std::string>& references, absl::string_view path);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_RECORD_FIELDS_H_
