#include "eval/rows_config.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/plan_yaml.h"

namespace scd {
namespace {

constexpr IntRange kRank = {.min = 1, .max = 65536, .unit = "columns"};
constexpr IntRange kLayer = {.min = 0, .max = 1023, .unit = "layer"};
constexpr IntRange kNative = {.min = 0, .max = 65536, .unit = "tokens"};
constexpr ListSize kRows = {.min = 1, .max = 256};
constexpr ListSize kLayers = {.min = 0, .max = 1024};
// In the order of the table.
std::string ModesOfTheTable() {
  std::vector<std::string> modes;
  for (const ModeRow& row : DefaultRows()) {
    if (std::find(modes.begin(), modes.end(), row.spec.mode) == modes.end()) modes.push_back(row.spec.mode);
  }
  return absl::StrJoin(modes, ", ");
}

ModeRow ReadRow(YamlSection section) {
  ModeRow row;
  TransferSpec& spec = row.spec;
  section.RequiredString("mode", &spec.mode);
  row.name = spec.mode;
  row.group = "published";
  section.String("name", &row.name);
  section.String("group", &row.group);
  section.Int("rank_k", &spec.rank_k, kRank);
  section.Int("rank_v", &spec.rank_v, kRank);
  section.Int("rank_h", &spec.rank_h, kRank);
  section.IntsOrWord("patch_layers", "auto", &spec.patch_layers, kLayer, kLayers);
  ReadLayerRange(section, "recompute_layers", &spec.recompute_layers);
  ReadCodec(section, "codec", &spec.codec);
  section.Real("distortion", &spec.distortion, {.min = 0, .max = 1e6});
  section.Int("native_head", &spec.native_head, kNative);
  section.Int("native_tail", &spec.native_tail, kNative);
  if (!IsModeName(spec.mode)) {
    section.Fail("mode", absl::StrCat("\"", spec.mode, "\" is none of ", ModesOfTheTable()));
  } else if (const std::string why = ContradictionIn(spec); !why.empty()) {
    section.Fail("mode", why);
  }
  return row;
}

}  // namespace

void ReadRows(YamlSection root, std::vector<ModeRow>* rows) {
  if (!root.Has("rows")) return;
  rows->clear();
  std::set<std::pair<std::string, std::string>> names;
  for (YamlSection section : root.Sections("rows", kRows)) {
    ModeRow row = ReadRow(section);
    if (!names.insert({row.group, row.name}).second) {
      section.Fail("name", absl::StrCat("\"", row.name, "\" stands twice in group ", row.group));
    }
    rows->push_back(std::move(row));
  }
}

}  // namespace scd
