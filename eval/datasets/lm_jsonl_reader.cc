#include "absl/strings/str_cat.h"
#include "eval/datasets/lm_readers.h"
#include "eval/datasets/record_fields.h"
#include "eval/datasets/record_text.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// One of <name>_ids and <name>.
absl::StatusOr<IdsOrText> ReadPart(const RecordField& record, const char* ids_key, const char* text_key) {
  if (record.Has(ids_key) == record.Has(text_key))
    return record.Error(absl::StrCat("expected one of \"", ids_key, "\" and \"", text_key, "\""));
  if (record.Has(ids_key)) {
    SCD_ASSIGN_OR_RETURN(const RecordField field, record.Field(ids_key));
    SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, field.TokenIds());
    return IdsOrText(std::move(ids));
  }
  SCD_ASSIGN_OR_RETURN(const RecordField field, record.Field(text_key));
  SCD_ASSIGN_OR_RETURN(std::string text, field.String());
  if (text.empty()) return field.Error("empty");
  return IdsOrText(std::move(text));
}

absl::StatusOr<LmItem> ReadRecord(const RecordField& record) {
  SCD_RETURN_IF_ERROR(record.ExpectObject());
  LmItem item;
  item.id = record.path();
  if (record.Has("id")) {
    SCD_ASSIGN_OR_RETURN(item.id, record.String("id"));
  }
  SCD_ASSIGN_OR_RETURN(item.prefix, ReadPart(record, "prefix_ids", "prefix"));
  SCD_ASSIGN_OR_RETURN(item.continuation, ReadPart(record, "continuation_ids", "continuation"));
  return item;
}

std::size_t BytesOf(const IdsOrText& part) {
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&part)) return ids->size() * sizeof((*ids)[0]);
  return std::get<std::string>(part).size();
}

}  // namespace

absl::Status ReadLmJsonl(absl::string_view text, LmCollector* collector) {
  LineCutter lines(text);
  while (!collector->full()) {
    const std::optional<LineCutter::Line> line = lines.Next();
    if (!line) break;
    const absl::StatusOr<nlohmann::json> json = ParseRecord({line->text, true}, line->path);
    absl::StatusOr<LmItem> item =
        json.ok() ? ReadRecord(RecordField(*json, line->path)) : absl::StatusOr<LmItem>(json.status());
    if (!item.ok()) {
      SCD_RETURN_IF_ERROR(collector->AddMalformed(item.status(), line->path));
      continue;
    }
    const std::size_t bytes = BytesOf(item->prefix) + BytesOf(item->continuation);
    SCD_RETURN_IF_ERROR(collector->Add(*std::move(item), bytes));
  }
  return absl::OkStatus();
}

}  // namespace scd
