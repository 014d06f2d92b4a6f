#include "eval/merge_results.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "eval/results.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using Json = nlohmann::ordered_json;

// What must be one and the same in all documents.
constexpr const char* kIdentity[] = {"/pair/producer/digest", "/pair/consumer/digest", "/pair/bundle/digest"};
// What tells two rows of a section apart.
constexpr const char* kModeKey[] = {"mode", "row", "group", "codec"};
constexpr const char* kLatencyKey[] = {"mode", "row", "prefix_tokens", "link_mbit_s", "measured"};
constexpr const char* kAblationKey[] = {"name"};

absl::Status CheckDocument(const Json& document, const std::string& name) {
  if (!document.is_object() || document.value("schema", Json(nullptr)) != Json(kResultsSchema)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": is no results document (schema ", kResultsSchema, ")"));
  }
  const auto list_of_objects = [](const Json& list) {
    if (!list.is_array()) return false;
    for (const Json& item : list) {
      if (!item.is_object()) return false;
    }
    return true;
  };
  for (const char* section : {"modes", "ablations"}) {
    if (document.contains(section) && !list_of_objects(document[section])) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", section, ": expected a list of objects"));
    }
  }
  const Json::json_pointer latency("/latency/rows");
  if (document.contains("latency") && (!document.contains(latency) || !list_of_objects(document[latency]))) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": latency.rows: expected a list of objects"));
  }
  return absl::OkStatus();
}

template <std::size_t N>
bool SameRow(const Json& a, const Json& b, const char* const (&keys)[N]) {
  for (const char* key : keys) {
    if (a.value(key, Json(nullptr)) != b.value(key, Json(nullptr))) return false;
  }
  return true;
}

template <std::size_t N>
void MergeRows(Json* into, const Json& rows, const char* const (&keys)[N]) {
  if (!into->is_array()) *into = Json::array();
  for (const Json& row : rows) {
    bool replaced = false;
    for (Json& known : *into) {
      if (!SameRow(known, row, keys)) continue;
      known = row;
      replaced = true;
    }
    if (!replaced) into->push_back(row);
  }
}

void MergeLists(Json* into, const Json& from, const char* key) {
  if (!from.contains(key) || !from[key].is_array()) return;
  if (!into->contains(key) || !(*into)[key].is_array()) (*into)[key] = Json::array();
  for (const Json& item : from[key]) {
    bool known = false;
    for (const Json& present : (*into)[key]) known = known || present == item;
    if (!known) (*into)[key].push_back(item);
  }
}

// Which data a table was measured on goes with the table.
void MergeInto(Json* merged, const Json& document) {
  MergeLists(merged, document, "commands");
  if (document.contains("modes")) {
    if (!merged->contains("modes") && document.contains("data")) (*merged)["data"] = document["data"];
    MergeRows(&(*merged)["modes"], document["modes"], kModeKey);
  }
  if (document.contains("latency")) {
    Json& latency = (*merged)["latency"];
    MergeLists(&latency, document["latency"], "prefix_tokens");
    MergeRows(&latency["rows"], document["latency"]["rows"], kLatencyKey);
  }
  if (document.contains("ablations")) MergeRows(&(*merged)["ablations"], document["ablations"], kAblationKey);
  if (document.contains("drift")) (*merged)["drift"] = document["drift"];
  for (const char* flag : {"interrupted", "error"}) {
    if (document.contains(flag)) (*merged)[flag] = document[flag];
  }
}

}  // namespace

absl::StatusOr<Json> MergeResults(const std::vector<Json>& documents, const std::vector<std::string>& names) {
  if (documents.empty()) return absl::InvalidArgumentError("no documents to merge");
  for (std::size_t i = 0; i < documents.size(); ++i) {
    SCD_RETURN_IF_ERROR(CheckDocument(documents[i], names[i]));
    for (const char* path : kIdentity) {
      const Json::json_pointer pointer(path);
      const Json first = documents[0].contains(pointer) ? documents[0][pointer] : Json(nullptr);
      const Json other = documents[i].contains(pointer) ? documents[i][pointer] : Json(nullptr);
      if (first == other) continue;
      return absl::InvalidArgumentError(absl::StrCat(names[i], ": ", path + 1, " is ", other.dump(), ", but ",
                                                     first.dump(), " in ", names[0]));
    }
  }
  Json merged = documents[0];
  for (std::size_t i = 1; i < documents.size(); ++i) MergeInto(&merged, documents[i]);
  return merged;
}

absl::StatusOr<Json> ReadResults(const std::string& path) {
  SCD_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJsonFile(path));
  return Json(document);
}

}  // namespace scd
