#include "eval/rows_config.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr IntRange kRank = {.min = 1, .max = 65536, .unit = "columns"};
constexpr IntRange kLayer = {.min = 0, .max = 1023, .unit = "layer"};
constexpr IntRange kNative = {.min = 0, .max = 65536, .unit = "tokens"};
constexpr ListSize kRows = {.min = 1, .max = 256};
constexpr ListSize kLayers = {.min = 0, .max = 1024};
constexpr Codec kCodecs[] = {Codec::kBF16, Codec::kF32, Codec::kInt8, Codec::kInt4};

std::optional<Codec> CodecByName(std::string_view name) {
  for (const Codec codec : kCodecs) {
    if (CodecName(codec) == name) return codec;
  }
  return std::nullopt;
}

std::string CodecNames() {
  std::string out;
  for (const Codec codec : kCodecs)
    absl::StrAppend(&out, out.empty() ? "" : ", ", std::string(CodecName(codec)));
  return out;
}

std::string ModeNames() {
  std::string out;
  for (const std::string_view mode : kEvalModes) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", std::string(mode));
  }
  return out;
}

void ReadCodec(YamlSection& section, std::optional<Codec>* codec) {
  if (!section.Has("codec")) return;
  std::string name;
  section.String("codec", &name);
  *codec = CodecByName(name);
  if (!*codec) section.Fail("codec", absl::StrCat("\"", name, "\" is none of ", CodecNames()));
}

void ReadRecomputed(YamlSection& section, std::optional<LayerRange>* range) {
  std::optional<std::vector<std::int64_t>> layers;
  section.IntsOrWord("recompute_layers", "auto", &layers, kLayer, kLayers);
  if (!layers) return;
  if (layers->size() != 2 || layers->front() > layers->back()) {
    section.Fail("recompute_layers", "expected [first, last], both included, or auto");
    return;
  }
  *range = LayerRange{layers->front(), layers->back()};
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
  ReadRecomputed(section, &spec.recompute_layers);
  ReadCodec(section, &spec.codec);
  section.Int("native_head", &spec.native_head, kNative);
  section.Int("native_tail", &spec.native_tail, kNative);
  if (!IsEvalMode(spec.mode)) {
    section.Fail("mode", absl::StrCat("\"", spec.mode, "\" is none of ", ModeNames()));
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

void ReadCodecs(YamlSection& section, std::string_view key, std::vector<Codec>* codecs) {
  if (!section.Has(key)) return;
  std::vector<std::string> names;
  section.Strings(key, &names, {.min = 0, .max = 8});
  codecs->clear();
  std::set<std::string> seen;
  for (const std::string& name : names) {
    const std::optional<Codec> codec = CodecByName(name);
    if (!codec) {
      section.Fail(key, absl::StrCat("\"", name, "\" is none of ", CodecNames()));
    } else if (!seen.insert(name).second) {
      section.Fail(key, absl::StrCat(name, " stands twice"));
    } else {
      codecs->push_back(*codec);
    }
  }
}

}  // namespace scd
