#include "eval/datasets/record_fields.h"

#include <limits>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr absl::string_view kPathPayload = "scd.eval.field_path";

absl::string_view TypeName(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return "null";
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "a list";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

}  // namespace

absl::Status FieldError(absl::string_view path, absl::string_view what) {
  absl::Status status = absl::InvalidArgumentError(what);
  status.SetPayload(kPathPayload, absl::Cord(path));
  return status;
}

std::string FieldPath(const absl::Status& error, absl::string_view otherwise) {
  const auto path = error.GetPayload(kPathPayload);
  return path ? std::string(*path) : std::string(otherwise);
}

std::string RecordField::PathOf(const char* key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

absl::Status RecordField::Mismatch(absl::string_view expected) const {
  return Error(absl::StrCat("expected ", expected, ", got ", TypeName(*value_)));
}

bool RecordField::Has(const char* key) const {
  const auto it = value_->is_object() ? value_->find(key) : value_->end();
  return it != value_->end() && !it->is_null();
}

absl::StatusOr<RecordField> RecordField::Field(const char* key) const {
  SCD_RETURN_IF_ERROR(ExpectObject());
  const auto it = value_->find(key);
  if (it == value_->end()) return FieldError(PathOf(key), "missing");
  return RecordField(*it, PathOf(key));
}

absl::Status RecordField::ExpectObject() const {
  return value_->is_object() ? absl::OkStatus() : Mismatch("an object");
}

absl::StatusOr<std::string> RecordField::String() const {
  if (!value_->is_string()) return Mismatch("a string");
  return value_->get_ref<const std::string&>();
}

absl::StatusOr<bool> RecordField::Bool() const {
  if (!value_->is_boolean()) return Mismatch("true or false");
  return value_->get<bool>();
}

absl::Status RecordField::ExpectInt() const {
  return value_->is_number_integer() ? absl::OkStatus() : Mismatch("an integer");
}

absl::StatusOr<std::vector<RecordField>> RecordField::List() const {
  if (!value_->is_array()) return Mismatch("a list");
  std::vector<RecordField> fields;
  fields.reserve(value_->size());
  for (const nlohmann::json& value : *value_)
    fields.emplace_back(value, absl::StrCat(path_, "[", fields.size(), "]"));
  return fields;
}

absl::StatusOr<std::vector<std::string>> RecordField::Strings() const {
  SCD_ASSIGN_OR_RETURN(const std::vector<RecordField> fields, List());
  std::vector<std::string> strings;
  for (const RecordField& field : fields) {
    SCD_ASSIGN_OR_RETURN(std::string text, field.String());
    strings.push_back(std::move(text));
  }
  return strings;
}

absl::StatusOr<std::vector<std::int32_t>> RecordField::TokenIds() const {
  if (!value_->is_array()) return Mismatch("a list of token ids");
  if (value_->empty()) return Error("has no token ids");
  std::vector<std::int32_t> ids;
  ids.reserve(value_->size());
  for (const nlohmann::json& id : *value_) {
    const bool fits =
        id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
    if (!fits) return FieldError(absl::StrCat(path_, "[", ids.size(), "]"), "expected a token id");
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

absl::StatusOr<std::string> RecordField::String(const char* key) const {
  SCD_ASSIGN_OR_RETURN(const RecordField field, Field(key));
  return field.String();
}

absl::StatusOr<std::vector<RecordField>> RecordField::List(const char* key) const {
  SCD_ASSIGN_OR_RETURN(const RecordField field, Field(key));
  return field.List();
}

absl::Status CheckReferences(const std::vector<std::string>& references, absl::string_view path) {
  if (references.size() > kMaxReferences)
    return FieldError(path, absl::StrCat("has ", references.size(), " entries, more than ", kMaxReferences));
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (references[i].size() > kMaxReferenceBytes)
      return FieldError(absl::StrCat(path, "[", i, "]"),
                        absl::StrCat("has ", references[i].size(), " bytes, more than ", kMaxReferenceBytes));
  }
  return absl::OkStatus();
}

}  // namespace scd
