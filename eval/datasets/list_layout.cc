#include "eval/datasets/list_layout.h"

#include "absl/strings/str_cat.h"
#include "eval/datasets/json_split.h"
#include "eval/datasets/record_text.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status ReadListLayout(absl::string_view text,
                            const std::function<absl::Status(const RecordField& record)>& read_record,
                            QaCollector* collector) {
  SCD_ASSIGN_OR_RETURN(JsonListCutter records, JsonListCutter::Create(text));
  std::string path = "[0]";
  for (std::int64_t i = 0; !collector->full(); ++i) {
    const std::optional<JsonPart> part = records.Next();
    if (!part) {
      return records.ending().ok() ? absl::OkStatus() : collector->AddMalformed(records.ending(), path);
    }
    path = absl::StrCat("[", i, "]");
    const absl::StatusOr<nlohmann::json> json = ParseRecord(*part, path);
    SCD_RETURN_IF_ERROR(json.ok() ? read_record(RecordField(*json, path))
                                  : collector->AddMalformed(json.status(), path));
    if (!part->complete) break;
  }
  return absl::OkStatus();
}

}  // namespace scd
