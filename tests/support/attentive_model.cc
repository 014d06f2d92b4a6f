#include "tests/support/attentive_model.h"

#include <array>
#include <deque>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "common/io/safetensors.h"
#include "kernels/dtype.h"
#include "kernels/status_macros.h"
#include "tests/support/shared_data.h"

namespace scd::testing {
namespace {

struct Gain {
  std::string_view name_part;
  float factor;  // a power of two: bf16 stays exact
};

// Scores of attention and what it reads then weigh as much as the token itself, and logits differ by several
// nats.
constexpr std::array kGains = {Gain{"embed_tokens", 0.5f}, Gain{"q_proj", 8.0f}, Gain{"k_proj", 8.0f},
                               Gain{"v_proj", 8.0f}, Gain{"o_proj", 32.0f}};

float GainOf(std::string_view name) {
  for (const Gain& gain : kGains) {
    if (name.find(gain.name_part) != std::string_view::npos) return gain.factor;
  }
  return 1.0f;
}

}  // namespace

absl::Status WriteAttentiveModel(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path source = TestDataPath("tiny-llama");
  fs::create_directory(folder);
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    fs::copy_file(source / name, fs::path(folder) / name);
  }
  SCD_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open((source / "model.safetensors").string()));
  std::deque<std::vector<std::uint16_t>> values;
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : file->tensors()) {
    const std::uint16_t* begin = view.as<std::uint16_t>();
    std::vector<std::uint16_t>& scaled = values.emplace_back(begin, begin + view.num_elements());
    for (std::uint16_t& value : scaled) value = FloatToBf16(Bf16ToFloat(value) * GainOf(name));
    tensors.push_back({name, ConstTensorView(scaled.data(), DType::kBF16, view.shape())});
  }
  return WriteSafetensors(folder + "/model.safetensors", tensors);
}

}  // namespace scd::testing
