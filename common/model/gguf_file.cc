#include "common/model/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/gguf_value.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status GgufFile::Error(std::string_view what, std::string_view message) const {
  const absl::string_view shown(what.data(), what.size());
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": ", absl::CHexEscape(shown), ": ", std::string(message)));
}

absl::StatusOr<const GgufFile::Value*> GgufFile::Find(const std::string& key, bool array) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return Error(key, "missing from the metadata");
  const bool is_array = it->second.type == GgufValueType::kArray;
  if (is_array != array)
    return Error(key, array ? "expected an array" : "expected a single value, got an array");
  return &it->second;
}

bool GgufFile::IsArray(const std::string& key) const {
  const auto it = values_.find(key);
  return it != values_.end() && it->second.type == GgufValueType::kArray;
}

absl::StatusOr<std::int64_t> GgufFile::Int(const std::string& key, std::int64_t min, std::int64_t max) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, false));
  const auto number = GgufInteger(value->type, value->data.data());
  if (!number) return Error(key, absl::StrCat("expected an integer, got ", GgufValueTypeName(value->type)));
  if (*number < min || *number > max) {
    return Error(key, absl::StrCat("expected an integer in [", min, ", ", max, "], got ", *number));
  }
  return *number;
}

absl::StatusOr<double> GgufFile::Double(const std::string& key, double min, double max) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, false));
  const auto number = GgufNumber(value->type, value->data.data());
  if (!number) return Error(key, absl::StrCat("expected a number, got ", GgufValueTypeName(value->type)));
  if (!std::isfinite(*number) || *number < min || *number > max) {
    return Error(key, absl::StrCat("expected a number in [", min, ", ", max, "], got ", *number));
  }
  return *number;
}

absl::StatusOr<bool> GgufFile::Bool(const std::string& key) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, false));
  if (value->type != GgufValueType::kBool) {
    return Error(key, absl::StrCat("expected a bool, got ", GgufValueTypeName(value->type)));
  }
  const auto byte = static_cast<std::uint8_t>(value->data[0]);
  if (byte > 1) return Error(key, absl::StrCat("expected a bool (0 or 1), got ", byte));
  return byte == 1;
}

absl::StatusOr<std::string> GgufFile::String(const std::string& key) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, false));
  if (value->type != GgufValueType::kString) {
    return Error(key, absl::StrCat("expected a string, got ", GgufValueTypeName(value->type)));
  }
  return std::string(reinterpret_cast<const char*>(value->data.data()), value->data.size());
}

absl::StatusOr<std::vector<std::string_view>> GgufFile::StringArray(const std::string& key) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, true));
  if (value->element_type != GgufValueType::kString) {
    return Error(key, absl::StrCat("expected an array of strings, got one of ",
                                   GgufValueTypeName(value->element_type)));
  }
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  const std::byte* next = value->data.data();
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const std::uint64_t size = GgufLittleEndian(next, sizeof(size));
    next += sizeof(size);
    strings.emplace_back(reinterpret_cast<const char*>(next), size);
    next += size;
  }
  return strings;
}

absl::StatusOr<std::vector<std::int64_t>> GgufFile::IntArray(const std::string& key) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, true));
  std::vector<std::int64_t> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number =
        GgufInteger(value->element_type, value->data.data() + i * GgufScalarBytes(value->element_type));
    if (!number) {
      return Error(key, absl::StrCat("expected an array of integers, got one of ",
                                     GgufValueTypeName(value->element_type)));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<std::vector<float>> GgufFile::FloatArray(const std::string& key) const {
  SCD_ASSIGN_OR_RETURN(const Value* value, Find(key, true));
  std::vector<float> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number =
        GgufNumber(value->element_type, value->data.data() + i * GgufScalarBytes(value->element_type));
    if (!number) {
      return Error(key, absl::StrCat("expected an array of numbers, got one of ",
                                     GgufValueTypeName(value->element_type)));
    }
    numbers.push_back(static_cast<float>(*number));
  }
  return numbers;
}

absl::StatusOr<GgufTensor> GgufFile::Tensor(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return absl::NotFoundError(absl::StrCat(path(), ": ", name, ": no such tensor"));
  return it->second;
}

}  // namespace scd
