#include "common/bundle/manifest_fields.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {

using nlohmann::json;

absl::Status CheckFields(const JsonObject& object, std::initializer_list<absl::string_view> known) {
  for (const auto& [name, value] : object.value().items()) {
    if (std::find(known.begin(), known.end(), absl::string_view(name)) == known.end()) {
      return object.Error(absl::CHexEscape(name), "unknown field");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Digest> ReadDigest(const JsonObject& object, const char* key) {
  SCD_ASSIGN_OR_RETURN(const std::string hex, object.String(key));
  const auto digest = Digest::FromHex(hex);
  if (!digest.ok()) return object.Error(key, digest.status().message());
  if (digest->empty()) return object.Error(key, "is all zero, which is no digest");
  return *digest;
}

absl::StatusOr<const json*> ReadArray(const JsonObject& object, const char* key, std::int64_t max_size) {
  const json* array = object.Find(key);
  if (array == nullptr || !array->is_array()) return object.Error(key, "missing; expected an array");
  if (array->size() > static_cast<std::size_t>(max_size)) {
    return object.Error(key, absl::StrCat("has ", array->size(), " entries, more than ", max_size));
  }
  return array;
}

absl::StatusOr<std::vector<std::int64_t>> ReadInts(const JsonObject& object, const char* key,
                                                   std::int64_t min, std::int64_t max, std::int64_t max_size,
                                                   Order order) {
  SCD_ASSIGN_OR_RETURN(const json* const array, ReadArray(object, key, max_size));
  std::vector<std::int64_t> values;
  values.reserve(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    const json& item = (*array)[i];
    const auto element = [&](absl::string_view what) {
      return object.Error(absl::StrCat(key, "[", i, "]"), what);
    };
    if (!item.is_number_integer() ||
        (item.is_number_unsigned() && item.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) ||
        item.get<std::int64_t>() < min || item.get<std::int64_t>() > max) {
      return element(absl::StrCat("expected an integer in [", min, ", ", max, "]"));
    }
    const auto value = item.get<std::int64_t>();
    if (order == Order::kAscending && !values.empty() && value <= values.back()) {
      return element(absl::StrCat(value, " does not follow ", values.back(), " in ascending order"));
    }
    values.push_back(value);
  }
  const std::set<std::int64_t> distinct(values.begin(), values.end());
  if (distinct.size() != values.size()) return object.Error(key, "a value stands twice");
  return values;
}

}  // namespace scd
