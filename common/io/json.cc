#include "common/io/json.h"

#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using nlohmann::json;

// Builds the document from parse events, so that depth and duplicate keys are seen while parsing.
class DocumentBuilder {
 public:
  bool null() { return Put(json(nullptr)); }
  bool boolean(bool value) { return Put(json(value)); }
  bool number_integer(json::number_integer_t value) { return Put(json(value)); }
  bool number_unsigned(json::number_unsigned_t value) { return Put(json(value)); }
  bool number_float(json::number_float_t value, const std::string& /*text*/) { return Put(json(value)); }
  bool string(std::string& value) { return Put(json(std::move(value))); }
  bool binary(json::binary_t& /*value*/) { return Fail("binary values are not JSON"); }

  bool start_object(std::size_t /*size*/) { return Open(json::object()); }
  bool start_array(std::size_t /*size*/) { return Open(json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

  bool key(std::string& name) {
    json& object = *open_.back();
    if (object.contains(name))
      return Fail(absl::StrCat("the key \"", absl::CHexEscape(name), "\" stands twice"));
    slot_ = &object[std::move(name)];
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/, const json::exception& error) {
    // The library's text begins with "[json.exception.parse_error.101] "; what follows is for people.
    absl::string_view what = error.what();
    if (const auto end = what.find("] "); end != absl::string_view::npos) what.remove_prefix(end + 2);
    return Fail(absl::StrCat("not valid JSON near byte ", position, ": ", absl::CHexEscape(what)));
  }

  const std::string& error() const { return error_; }
  json TakeDocument() { return std::move(document_); }

 private:
  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  // Stores a value where the next one belongs and returns its place.
  json* Store(json value) {
    ++num_values_;
    if (open_.empty()) {
      document_ = std::move(value);
      return &document_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Put(json value) {
    if (num_values_ >= kMaxJsonValues) return Fail(absl::StrCat("has more than ", kMaxJsonValues, " values"));
    Store(std::move(value));
    return true;
  }

  bool Open(json container) {
    if (num_values_ >= kMaxJsonValues) return Fail(absl::StrCat("has more than ", kMaxJsonValues, " values"));
    if (open_.size() >= kMaxJsonDepth)
      return Fail(absl::StrCat("nested deeper than ", kMaxJsonDepth, " levels"));
    // Addresses of open containers are stable: only the innermost one grows.
    open_.push_back(Store(std::move(container)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  json document_;
  std::vector<json*> open_;
  json* slot_ = nullptr;
  std::size_t num_values_ = 0;
  std::string error_;
};

// A short rendering of a value for messages.
std::string Shown(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      constexpr std::size_t kShown = 60;
      return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShown)),
                          text.size() > kShown ? "...\"" : "\"");
    }
    case json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    default:
      return value.dump();
  }
}

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view origin) {
  DocumentBuilder builder;
  try {
    if (!json::sax_parse(text.begin(), text.end(), &builder)) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": ", builder.error()));
    }
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": not valid JSON: ", error.what()));
  }
  return builder.TakeDocument();
}

absl::StatusOr<json> ParseJsonFile(const std::string& path, std::size_t max_bytes) {
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", file->size(), " bytes, more than the ", max_bytes, " allowed"));
  }
  return ParseJson(file->text(), path);
}

absl::StatusOr<JsonObject> JsonObject::Create(const json& value, std::string path) {
  if (!value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JSON object, got ", Shown(value)));
  }
  return JsonObject(&value, std::move(path));
}

const json* JsonObject::Find(const char* key) const {
  const auto it = value_->find(key);
  return it == value_->end() ? nullptr : &*it;
}

bool JsonObject::Has(const char* key) const {
  const json* value = Find(key);
  return value != nullptr && !value->is_null();
}

absl::Status JsonObject::Error(absl::string_view key, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", key, ": ", what));
}

absl::StatusOr<std::int64_t> JsonObject::Int(const char* key, std::int64_t min, std::int64_t max) const {
  if (!Has(key)) return Error(key, "missing; expected an integer");
  const json& value = *Find(key);
  const std::string range = absl::StrCat("expected an integer in [", min, ", ", max, "], got ");
  if (!value.is_number_integer()) return Error(key, absl::StrCat(range, Shown(value)));
  const bool fits =
      !value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < min || number > max) return Error(key, absl::StrCat(range, Shown(value)));
  return number;
}

absl::StatusOr<double> JsonObject::Double(const char* key, double min, double max) const {
  if (!Has(key)) return Error(key, "missing; expected a number");
  const json& value = *Find(key);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= min && number <= max) || !std::isfinite(number)) {
    return Error(key, absl::StrCat("expected a number in [", min, ", ", max, "], got ", Shown(value)));
  }
  return number;
}

absl::StatusOr<bool> JsonObject::Bool(const char* key) const {
  if (!Has(key)) return Error(key, "missing; expected true or false");
  const json& value = *Find(key);
  if (!value.is_boolean()) return Error(key, absl::StrCat("expected true or false, got ", Shown(value)));
  return value.get<bool>();
}

absl::StatusOr<std::string> JsonObject::String(const char* key) const {
  if (!Has(key)) return Error(key, "missing; expected a string");
  const json& value = *Find(key);
  if (!value.is_string()) return Error(key, absl::StrCat("expected a string, got ", Shown(value)));
  return value.get<std::string>();
}

absl::StatusOr<JsonObject> JsonObject::Object(const char* key) const {
  if (!Has(key)) return Error(key, "missing; expected an object");
  return Create(*Find(key), absl::StrCat(path_, ": ", key));
}

}  // namespace scd
