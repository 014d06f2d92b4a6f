#include "eval/text_table.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace scd {
namespace {

constexpr char kNone[] = "-";

// One column of a table over records of one type.
template <typename Record>
struct Column {
  std::string heading;
  std::function<std::optional<std::string>(const Record&)> text;  // absent: no figure
};

template <typename Record>
std::string Table(const std::vector<Record>& records, const std::vector<Column<Record>>& columns) {
  std::vector<std::vector<std::string>> rows(records.size() + 1);
  for (const Column<Record>& column : columns) {
    std::vector<std::optional<std::string>> texts;
    for (const Record& record : records) texts.push_back(column.text(record));
    if (std::all_of(texts.begin(), texts.end(), [](const auto& text) { return !text; })) continue;
    rows[0].push_back(column.heading);
    for (std::size_t i = 0; i < texts.size(); ++i) rows[i + 1].push_back(texts[i].value_or(kNone));
  }
  return AlignedTable(rows);
}

std::optional<std::string> Fixed(const std::optional<double>& value, int digits) {
  if (!value) return std::nullopt;
  return absl::StrFormat("%.*f", digits, *value);
}

template <typename Record>
Column<Record> Figure(std::string heading, std::optional<double> Record::*member, int digits) {
  return {std::move(heading),
          [member, digits](const Record& record) { return Fixed(record.*member, digits); }};
}

std::optional<std::string> Integer(const std::optional<std::int64_t>& value) {
  if (!value) return std::nullopt;
  return absl::StrCat(*value);
}

std::string ModesTable(const Results& results) {
  const auto raw = static_cast<double>(results.pair.raw_bytes_per_token());
  using R = ModeFigures;
  return Table<R>(
      results.modes,
      {{"row", [](const R& r) { return r.row.name; }},
       {"group", [](const R& r) { return r.row.group; }},
       {"head+tail",
        [](const R& r) -> std::optional<std::string> {
          if (r.row.spec.is_local()) return std::nullopt;
          return absl::StrCat(r.row.spec.native_head, "+", r.row.spec.native_tail);
        }},
       {"codec",
        [](const R& r) { return r.codec.empty() ? std::nullopt : std::optional<std::string>(r.codec); }},
       {"bytes/token", [](const R& r) { return Fixed(r.bytes_per_token, 0); }},
       {"% of raw", [raw](const R& r) { return Fixed(raw > 0 ? 100 * r.bytes_per_token / raw : 0, 1); }},
       Figure("F1", &R::f1, 3),
       Figure("exact", &R::exact, 3),
       Figure("PPL", &R::ppl, 2),
       Figure("KL nats", &R::kl, 4),
       Figure("TV", &R::tv, 4),
       Figure("KL answer", &R::kl_answer, 3),
       Figure("first diff.", &R::first_difference, 1),
       Figure("cold ms", &R::ttft_ms_cold, 0),
       Figure("ready ms", &R::ttft_ms_codes_ready, 0),
       Figure("native ms", &R::ttft_ms_native, 0)});
}

std::string LatencyTable(const Results& results) {
  using R = LatencyFigures;
  return Table<R>(
      results.latency,
      {{"row", [](const R& r) { return r.row; }},
       {"tokens", [](const R& r) { return absl::StrCat(r.prefix_tokens); }},
       {"link",
        [](const R& r) { return r.link_mbit_s ? absl::StrFormat("%g Mbit/s", *r.link_mbit_s) : "loopback"; }},
       {"time", [](const R& r) { return r.measured ? "measured" : "computed"; }},
       {"KiB", [](const R& r) { return Fixed(r.bytes / 1024, 1); }},
       Figure("cold ms", &R::ttft_ms_cold, 1),
       Figure("ready ms", &R::ttft_ms_codes_ready, 1),
       Figure("native ms", &R::ttft_ms_native, 1),
       {"prefill ms", [](const R& r) { return Fixed(r.stages.producer_prefill, 1); }},
       {"encode ms", [](const R& r) { return Fixed(r.stages.producer_encode, 1); }},
       {"transfer ms", [](const R& r) { return Fixed(r.stages.transfer, 1); }},
       {"rebuild ms", [](const R& r) { return Fixed(r.stages.rebuild, 1); }},
       {"own ms", [](const R& r) { return Fixed(r.stages.native, 1); }}});
}

std::string AblationTable(const AblationResults& ablation) {
  using R = AblationFigures;
  return Table<R>(ablation.rows, {{"rank K", [](const R& r) { return Integer(r.rank_k); }},
                                  {"rank V", [](const R& r) { return Integer(r.rank_v); }},
                                  {"rank H", [](const R& r) { return Integer(r.rank_h); }},
                                  {"Patch layers",
                                   [](const R& r) {
                                     return absl::StrCat(r.patch_layers.size(), " [",
                                                         absl::StrJoin(r.patch_layers, " "), "]");
                                   }},
                                  {"prefixes", [](const R& r) { return Integer(r.calibration_prefixes); }},
                                  {"bytes/token", [](const R& r) { return Fixed(r.bytes_per_token, 0); }},
                                  Figure("KL nats", &R::kl, 4),
                                  Figure("TV", &R::tv, 4),
                                  Figure("PPL", &R::ppl, 2),
                                  Figure("KL answer", &R::kl_answer, 3),
                                  Figure("ready ms", &R::ttft_ms_codes_ready, 0)});
}

std::string DriftText(const nlohmann::json& drift) {
  const auto curves = drift.find("curves");
  if (curves == drift.end() || !curves->is_array()) return "";
  std::vector<std::vector<std::string>> rows = {{"mode", "Patch layers", "KV error K", "V",
                                                 "hidden error, last layer", "predicted", "layers violated"}};
  const auto mean = [](const nlohmann::json& values) {
    double sum = 0;
    for (const auto& value : values) sum += value.is_number() ? value.get<double>() : 0;
    return absl::StrFormat("%.4f", values.empty() ? 0 : sum / static_cast<double>(values.size()));
  };
  const auto last = [](const nlohmann::json& values) {
    return values.empty() || !values.back().is_number()
               ? std::string(kNone)
               : absl::StrFormat("%.4f", values.back().get<double>());
  };
  const auto list = [](const nlohmann::json& curve, const char* key) {
    return curve.value(key, nlohmann::json::array());
  };
  for (const auto& curve : *curves) {
    rows.push_back({curve.value("mode", ""), list(curve, "patch_layers").dump(),
                    mean(list(curve, "kv_error_k")), mean(list(curve, "kv_error_v")),
                    last(list(curve, "hidden_error")), last(list(curve, "predicted")),
                    list(curve, "violated").dump()});
  }
  return AlignedTable(rows);
}

// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void AddSection(std::string* out, const std::string& title, const std::string& table) {
  if (!table.empty()) absl::StrAppend(out, out->empty() ? "" : "\n", title, "\n", table);
}

}  // namespace

std::string AlignedTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      const bool last = i + 1 == row.size();
      absl::StrAppend(&out, i == 0 ? row[i] + (last ? "" : padding) : padding + row[i], last ? "" : "  ");
    }
    out.push_back('\n');
  }
  return out;
}

std::string DescribeResults(const Results& results) {
  std::string out;
  if (!results.modes.empty()) {
    AddSection(&out,
               absl::StrCat(results.data.num_windows, " windows, ", results.data.num_questions,
                            " questions; raw KV is ", results.pair.raw_bytes_per_token(), " bytes a token"),
               ModesTable(results));
  }
  if (!results.latency.empty()) {
    AddSection(&out, "time to first token (computed: bytes / bandwidth + the time measured on loopback)",
               LatencyTable(results));
  }
  for (const AblationResults& ablation : results.ablations) {
    if (!ablation.rows.empty()) AddSection(&out, "ablation: " + ablation.name, AblationTable(ablation));
  }
  if (results.drift)
    AddSection(&out, "drift (mean over layers of relative errors)", DriftText(*results.drift));
  return out;
}

}  // namespace scd
