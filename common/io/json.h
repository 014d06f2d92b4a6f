// JSON from outside: parsed without exceptions and with bounded nesting and size, and typed access that names
// the field in its errors ("config.json: hidden_size: expected a positive integer, got \"64\"").
#ifndef SCD_COMMON_IO_JSON_H_
#define SCD_COMMON_IO_JSON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace scd {

inline constexpr int kMaxJsonDepth = 64;
// Twice what the largest tokenizer.json in use has; a parsed value takes many times the bytes of its text.
inline constexpr std::size_t kMaxJsonValues = 4'000'000;

// `origin` (a path) starts every message. Duplicate keys, nesting over kMaxJsonDepth, more than
// kMaxJsonValues values, invalid UTF-8 and trailing bytes are INVALID_ARGUMENT.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view origin);

// Reads and parses a whole file of at most max_bytes.
absl::StatusOr<nlohmann::json> ParseJsonFile(const std::string& path,
                                             std::size_t max_bytes = std::size_t{64} << 20);

// Typed look-ups in one JSON object.
class JsonObject {
 public:
  // INVALID_ARGUMENT unless value is an object. `path` is the origin and field path so far. Keeps a pointer
  // to value.
  static absl::StatusOr<JsonObject> Create(const nlohmann::json& value, std::string path);

  bool Has(const char* key) const;  // present and not null
  // Each: INVALID_ARGUMENT where the field is missing (or null), of another type or outside [min, max].
  absl::StatusOr<std::int64_t> Int(const char* key, std::int64_t min, std::int64_t max) const;
  absl::StatusOr<double> Double(const char* key, double min, double max) const;  // finite; integers accepted
  absl::StatusOr<bool> Bool(const char* key) const;
  absl::StatusOr<std::string> String(const char* key) const;
  absl::StatusOr<JsonObject> Object(const char* key) const;
  // The raw value, or null where it is missing.
  const nlohmann::json* Find(const char* key) const;

  const std::string& path() const { return path_; }
  const nlohmann::json& value() const { return *value_; }
  // "<path>: <key>: <what>" as INVALID_ARGUMENT.
  absl::Status Error(absl::string_view key, absl::string_view what) const;

 private:
  JsonObject(const nlohmann::json* value, std::string path) : value_(value), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace scd

#endif  // SCD_COMMON_IO_JSON_H_
