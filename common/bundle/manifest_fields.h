// Reads the fields of a manifest's JSON, with errors that name them.
#ifndef SCD_COMMON_BUNDLE_MANIFEST_FIELDS_H_
#define SCD_COMMON_BUNDLE_MANIFEST_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/digest.h"
#include "common/io/json.h"

namespace scd {

inline constexpr double kAnyFinite = std::numeric_limits<double>::max();
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

// No field but these.
absl::Status CheckFields(const JsonObject& object, std::initializer_list<absl::string_view> known);

absl::StatusOr<Digest> ReadDigest(const JsonObject& object, const char* key);

absl::StatusOr<const nlohmann::json*> ReadArray(const JsonObject& object, const char* key,
                                                std::int64_t max_size);

enum class Order : std::uint8_t { kAny, kAscending };

// Distinct integers in [min, max].
absl::StatusOr<std::vector<std::int64_t>> ReadInts(const JsonObject& object, const char* key,
                                                   std::int64_t min, std::int64_t max, std::int64_t max_size,
                                                   Order order);

}  // namespace scd

#endif  // SCD_COMMON_BUNDLE_MANIFEST_FIELDS_H_
