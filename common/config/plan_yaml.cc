#include "common/config/plan_yaml.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace scd {
namespace {

constexpr IntRange kLayer = {.min = 0, .max = 1023, .unit = "layer"};

std::optional<Codec> CodecOrFail(YamlSection& section, std::string_view key, const std::string& name) {
  const std::optional<Codec> codec = CodecByName(name);
  if (codec) return codec;
  const auto append_name = [](std::string* out, Codec known) { out->append(CodecName(known)); };
  section.Fail(key, absl::StrCat("\"", name, "\" is none of ", absl::StrJoin(kAllCodecs, ", ", append_name)));
  return std::nullopt;
}

}  // namespace

void ReadLayerRange(YamlSection& section, std::string_view key, std::optional<LayerRange>* range) {
  std::optional<std::vector<std::int64_t>> layers;
  section.IntsOrWord(key, "auto", &layers, kLayer, {.min = 2, .max = 2});
  if (!layers || layers->size() != 2) return;
  *range = LayerRange{.first = layers->front(), .last = layers->back()};
  if (layers->back() < layers->front()) {
    section.Fail(key, "its last layer is before its first: expected [first, last], both included, or auto");
  }
}

void ReadCodec(YamlSection& section, std::string_view key, std::optional<Codec>* codec) {
  if (!section.Has(key)) return;
  std::string name;
  section.String(key, &name);
  if (name != "auto") *codec = CodecOrFail(section, key, name);
}

void ReadCodecs(YamlSection& section, std::string_view key, std::vector<Codec>* codecs) {
  if (!section.Has(key)) return;
  std::vector<std::string> names;
  section.Strings(key, &names, {.min = 0, .max = 8});
  codecs->clear();
  for (const std::string& name : names) {
    const std::optional<Codec> codec = CodecOrFail(section, key, name);
    if (!codec) continue;
    if (std::find(codecs->begin(), codecs->end(), *codec) != codecs->end()) {
      section.Fail(key, absl::StrCat(name, " stands twice"));
    } else {
      codecs->push_back(*codec);
    }
  }
}

}  // namespace scd
