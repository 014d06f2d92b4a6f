// The small bundle of tests/data/translate, opened as a bundle, and what numpy made of it.
#ifndef SCD_TESTS_COMMON_TRANSLATE_EXPECTED_H_
#define SCD_TESTS_COMMON_TRANSLATE_EXPECTED_H_

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/bundle/bundle.h"
#include "common/bundle/bundle_layout.h"
#include "common/bundle/bundle_writer.h"
#include "common/cache/sequence.h"
#include "common/io/safetensors.h"
#include "common/wire/layer_code.h"
#include "common/wire/payload_numbers.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/kv_projection.h"
#include "kernels/rope_table.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd::testing {

// Sizes of make_expected.py.
inline constexpr std::int64_t kHeads = 2, kHeadDim = 4, kDKv = 8, kHidden = 12, kTokens = 7, kFirst = 3;
inline constexpr std::int64_t kRankK = 5, kRankV = 7;

class Expected {
 public:
  Expected() {
    auto file = SafetensorsFile::Open(TestDataPath("translate/expected.safetensors"));
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }

  ConstTensorView Get(const std::string& name) const {
    const auto view = file_->Get(name);
    EXPECT_TRUE(view.ok()) << view.status();
    return view.value_or(ConstTensorView());
  }

  std::unique_ptr<Bundle> OpenBundle() const {
    ModelConfig config = TinyConfig();
    config.num_layers = 2;
    config.hidden_size = kHidden;
    config.num_kv_heads = kHeads;
    config.head_dim = kHeadDim;
    TinyBundleOptions options;
    options.max_rank_k = 6;
    options.default_rank_k = kRankK;
    options.max_rank_v = 8;
    options.default_rank_v = kRankV;
    options.ranks_h = {4, 9};
    options.candidate_layers = {1};
    options.default_patch_layers = {1};
    options.mlp_width = 5;
    options.fused = FusedShape();
    options.distortions.clear();
    const BundleManifest manifest = TinyManifest(config, MadeUpModel("a"), MadeUpModel("b"), options);
    std::vector<NamedTensor> tensors;
    for (const BundleTensor& tensor : BundleTensors(manifest))
      tensors.push_back({tensor.name, Get(tensor.name)});
    const TempDir dir;
    const auto written = WriteBundle(dir.File("bundle"), manifest, tensors);
    EXPECT_TRUE(written.ok()) << written.status();
    auto bundle = Bundle::Open(dir.File("bundle"));
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return bundle.ok() ? *std::move(bundle) : nullptr;
  }

 private:
  std::unique_ptr<SafetensorsFile> file_;
};

inline LayerPlan PlanFor(const Bundle& bundle, std::int64_t rank_h, Codec codec) {
  const auto plan = bundle.ResolvePlan({.rank_h = rank_h, .codec = codec});
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

// f32 memory of a backend that runs on the host, filled or zero.
class DeviceTensor {
 public:
  DeviceTensor(Backend& backend, const Shape& shape)
      : buffer_(*backend.Allocate(MemoryKind::kDevice, static_cast<std::size_t>(shape.num_elements()) * 4)),
        view_(buffer_->View(DType::kF32, shape)) {
    std::fill_n(view_.as<float>(), shape.num_elements(), 0.0f);
  }
  TensorView view() const { return view_; }

 private:
  std::unique_ptr<Buffer> buffer_;
  TensorView view_;
};

// The pages of a sequence, layer by layer.
inline auto PagesOf(const Sequence& sequence) {
  return [&sequence](std::int64_t layer) { return sequence.view(layer); };
}

// A tensor's values; bf16 as floats.
inline std::vector<float> Values(const ConstTensorView& view) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < view.num_elements(); ++i) {
    values.push_back(view.dtype() == DType::kF32 ? view.as<float>()[i]
                                                 : Bf16ToFloat(view.as<std::uint16_t>()[i]));
  }
  return values;
}

// What a code holds, [num_tokens, rank].
inline std::vector<float> Numbers(const LayerCode& code) {
  std::vector<float> numbers(static_cast<std::size_t>(code.num_tokens * code.rank));
  DecodeNumbers(code, 0, code.num_tokens, numbers.data());
  return numbers;
}

inline void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected, float relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], relative * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_TRANSLATE_EXPECTED_H_
