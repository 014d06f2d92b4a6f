#include "common/model/model_yaml.h"

#include <utility>
#include <vector>

namespace scd {

void ReadModelSource(YamlSection root, std::string_view key, ModelSource* source, MathMode* math) {
  YamlSection section = root.Section(key);
  section.RequiredString("path", &source->path);
  section.String("adapter", &source->adapter);
  section.String("config", &source->config);
  std::vector<std::pair<std::string_view, WeightsFormat>> words;
  for (const WeightsFormat format : {WeightsFormat::kAuto, WeightsFormat::kF32, WeightsFormat::kBF16,
                                     WeightsFormat::kInt8, WeightsFormat::kInt4}) {
    words.emplace_back(WeightsFormatName(format), format);
  }
  section.Choice("weights", &source->weights, words);
  if (math == nullptr || !section.Has("weights")) return;
  const auto settle = [&](MathMode wanted, std::string_view contradiction) {
    if (*math == MathMode::kAuto) *math = wanted;
    if (*math != wanted) section.Fail("weights", contradiction);
  };
  if (source->weights == WeightsFormat::kF32) settle(MathMode::kF32, "is f32, but math is bf16");
  if (source->weights == WeightsFormat::kBF16) settle(MathMode::kBF16, "is bf16, but math is f32");
}

}  // namespace scd
