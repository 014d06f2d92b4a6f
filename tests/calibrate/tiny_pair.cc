#include "tests/calibrate/tiny_pair.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/io/safetensors.h"
#include "gtest/gtest.h"
#include "tests/support/shared_data.h"

namespace scd::testing {
namespace {

constexpr float kLogitScale = 0.15f;

std::vector<float> Disturbed(ConstTensorView view, float scale, float strength, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out;
  for (std::int64_t i = 0; i < view.num_elements(); ++i) {
    const float value = view.dtype() == DType::kBF16  ? Bf16ToFloat(view.as<std::uint16_t>()[i])
                        : view.dtype() == DType::kF16 ? F16ToFloat(view.as<std::uint16_t>()[i])
                                                      : view.as<float>()[i];
    out.push_back(scale * value * (1.0f + strength * normal(random)));
  }
  return out;
}

}  // namespace

std::string TinyLlama() {
  return TestDataPath("tiny-llama");
}

void WriteTinyModel(const std::string& folder, float strength, const std::vector<std::string>& kept) {
  namespace fs = std::filesystem;
  fs::create_directories(folder);
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(TinyLlama() + "/" + name, folder + "/" + name, fs::copy_options::overwrite_existing);
  }
  const auto file = SafetensorsFile::Open(TinyLlama() + "/model.safetensors").value();
  std::mt19937 random(11);
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  values.reserve(file->tensors().size());
  for (const auto& [name, view] : file->tensors()) {
    const float scale = name == "model.norm.weight" ? kLogitScale : 1.0f;
    const bool keep = std::any_of(kept.begin(), kept.end(), [&name = name](const std::string& begin) {
      return name.rfind(begin, 0) == 0;
    });
    values.push_back(Disturbed(view, scale, keep ? 0.0f : strength, random));
    tensors.push_back({name, ConstTensorView(values.back().data(), DType::kF32, view.shape())});
  }
  ASSERT_TRUE(WriteSafetensors(folder + "/model.safetensors", tensors).ok());
}

std::string RandomIdsJsonl(std::int64_t count, std::int64_t tokens, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::uint32_t> ids;
    for (std::int64_t t = 0; t < tokens; ++t) ids.push_back(3 + random() % 900);
    absl::StrAppend(&out, "{\"ids\": [", absl::StrJoin(ids, ", "), "]}\n");
  }
  return out;
}

}  // namespace scd::testing
