
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "eval/datasets/json_split.h"
#include "eval/datasets/qa_dataset.h"
#include "eval/datasets/record_fields.h"
#include "eval/datasets/record_text.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Records that are looked at before giving up: the first may be malformed.
constexpr int kMaxRecords = 16;

absl::Status Ambiguous(absl::string_view why, const std::vector<std::string>& choices) {
  return absl::InvalidArgumentError(absl::StrCat(why, "; name its format: ", absl::StrJoin(choices, ", ")));
}

// What the questions of SQuAD's layout show.
struct Signs {
  bool has_is_impossible = false;
  bool has_paragraph_id = false;
};

Signs SignsOf(const JsonPart& data) {
  Signs signs;
  absl::StatusOr<JsonListCutter> articles = JsonListCutter::Create(data.text);
  for (int i = 0; articles.ok() && i < kMaxRecords; ++i) {
    const std::optional<JsonPart> part = articles->Next();
    if (!part) break;
    const absl::StatusOr<nlohmann::json> json = ParseRecord(*part, "");
    if (!json.ok()) continue;
    const absl::StatusOr<std::vector<RecordField>> paragraphs = RecordField(*json, "").List("paragraphs");
    if (!paragraphs.ok()) continue;
    for (const RecordField& paragraph : *paragraphs) {
      signs.has_paragraph_id |= paragraph.Has("id");
      const absl::StatusOr<std::vector<RecordField>> questions = paragraph.List("qas");
      if (!questions.ok()) continue;
      for (const RecordField& question : *questions) signs.has_is_impossible |= question.Has("is_impossible");
    }
  }
  return signs;
}

// "1.1" for "1.1" and "v1.1"; empty where there is none.
std::string VersionOf(const JsonMembers& document) {
  const JsonPart* part = document.Find("version");
  if (part == nullptr) return "";
  const absl::StatusOr<nlohmann::json> json = ParseRecord(*part, "version");
  if (!json.ok() || !json->is_string()) return "";
  return std::string(absl::StripPrefix(json->get_ref<const std::string&>(), "v"));
}

absl::StatusOr<QaFormat> DetectSquadLayout(const JsonMembers& document) {
  const Signs signs = SignsOf(*document.Find("data"));
  const std::string version = VersionOf(document);
  if (signs.has_is_impossible && version != "1.1" && !signs.has_paragraph_id) return QaFormat::kSquadV2;
  if (!signs.has_is_impossible && !signs.has_paragraph_id) {
    if (version == "1.1") return QaFormat::kSquadV1;
    if (absl::StartsWith(version, "2.")) return QaFormat::kSquadV2;
  }
  if (!signs.has_is_impossible && signs.has_paragraph_id && version == "1.0") return QaFormat::kCmrc2018;
  return Ambiguous("has SQuAD's layout, but version and fields do not say of which data set",
                   {QaFormatName(QaFormat::kSquadV1), QaFormatName(QaFormat::kSquadV2),
                    QaFormatName(QaFormat::kCmrc2018)});
}

absl::StatusOr<QaFormat> DetectList(absl::string_view text) {
  SCD_ASSIGN_OR_RETURN(JsonListCutter records, JsonListCutter::Create(text));
  for (int i = 0; i < kMaxRecords; ++i) {
    const std::optional<JsonPart> part = records.Next();
    if (!part) break;
    const absl::StatusOr<nlohmann::json> json = ParseRecord(*part, "");
    if (!json.ok()) continue;
    const RecordField record(*json, "");
    const bool flat = record.Has("context_text") && record.Has("qas");
    const bool hotpot = record.Has("_id") && record.Has("context") && record.Has("question");
    if (flat != hotpot) return flat ? QaFormat::kCmrc2018Flat : QaFormat::kHotpotQa;
  }
  return Ambiguous("is a list of no known layout",
                   {QaFormatName(QaFormat::kCmrc2018Flat), QaFormatName(QaFormat::kHotpotQa)});
}

}  // namespace

absl::StatusOr<QaFormat> DetectQaFormat(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(text, "[")) return DetectList(text);
  if (absl::StartsWith(text, "{")) {
    const absl::StatusOr<JsonMembers> document = CutJsonObject(text);
    if (document.ok()) {
      const auto has = [&](absl::string_view key) { return document->Find(key) != nullptr; };
      const bool jsonl = (has("prompt") || has("question")) && (has("references") || has("answers"));
      if (has("data") != jsonl)
        return jsonl ? absl::StatusOr<QaFormat>(QaFormat::kJsonl) : DetectSquadLayout(*document);
    }
  }
  return Ambiguous("is of no known layout", QaFormatNames());
}

}  // namespace scd
