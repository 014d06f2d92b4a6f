// Parts of a packed weight, and the K/V projection made of them.
#include "kernels/kv_projection.h"

#include <cmath>

#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

constexpr std::int64_t kTokens = 70;
constexpr std::int64_t kHidden = 24;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kHeadDim = 6;
constexpr std::int64_t kWidth = kHeads * kHeadDim;

// Adds the sum of each row of x, times a factor.
class RowSums final : public ProductUpdate {
 public:
  explicit RowSums(float factor) : factor_(factor) {}
  absl::Status AddTo(Backend& /*backend*/, Stream& /*stream*/, ConstTensorView x,
                     TensorView out) const override {
    for (std::int64_t r = 0; r < x.dim(0); ++r) {
      float sum = 0.0f;
      for (std::int64_t i = 0; i < x.dim(1); ++i) sum += x.row<float>(r)[i];
      for (std::int64_t i = 0; i < out.dim(1); ++i) out.row<float>(r)[i] += factor_ * sum;
    }
    return absl::OkStatus();
  }

 private:
  const float factor_;
};

class KvProjectionTest : public ::testing::TestWithParam<const char*> {
 protected:
  KvProjectionTest() {
    const std::vector<float> values = Random(3 * kWidth * kHidden, 1);
    const std::vector<float> bias = Random(3 * kWidth, 2);
    const auto pack = [&](std::int64_t first, std::int64_t count, absl::Span<const std::int64_t> cuts) {
      auto packed = backend().PackWeight(
          ConstTensorView(values.data() + first * kHidden, DType::kF32, {count, kHidden}),
          ConstTensorView(bias.data() + first, DType::kF32, {count}),
          {.format = WeightFormat::kDense, .cuts = cuts});
      ExpectOk(packed.status());
      return *std::move(packed);
    };
    qkv_ = pack(0, 3 * kWidth, {kWidth, 2 * kWidth});
    k_ = pack(kWidth, kWidth, {});
    v_ = pack(2 * kWidth, kWidth, {});
  }

  Backend& backend() { return rig_.backend(); }

  KvProjection Projection(const WeightPart& k, const WeightPart& v) {
    return {.k = k,
            .v = v,
            .k_norm = norm_.view,
            .norm_epsilon = 1e-5f,
            .num_kv_heads = kHeads,
            .head_dim = kHeadDim};
  }

  // K and V [tokens, 2 * width] beside each other, or in tensors of their own.
  std::vector<float> Project(const KvProjection& projection, bool one_tensor) {
    const RigTensor both = rig_.Make({kTokens, 2 * kWidth}, 5);
    const RigTensor k = rig_.Make({kTokens, kWidth});
    const RigTensor v = rig_.Make({kTokens, kWidth}, 1);
    const TensorView k_out = one_tensor ? both.view.columns(0, kWidth) : k.view;
    const TensorView v_out = one_tensor ? both.view.columns(kWidth, kWidth) : v.view;
    ExpectOk(ProjectKv(backend(), rig_.stream(), projection, x_.view, k_out, v_out));
    if (!one_tensor) {
      ExpectOk(backend().Copy(rig_.stream(), both.view.columns(0, kWidth), k.view));
      ExpectOk(backend().Copy(rig_.stream(), both.view.columns(kWidth, kWidth), v.view));
    }
    return rig_.Get(both);
  }

  BackendRig rig_{{.device = GetParam(), .num_threads = 2, .math = MathMode::kF32}};
  RigTensor x_ = rig_.Put({kTokens, kHidden}, Random(kTokens* kHidden, 3), 2);
  RigTensor norm_ = rig_.Put({kHeadDim}, Random(kHeadDim, 4));
  std::unique_ptr<PackedWeight> qkv_, k_, v_;
};

TEST_P(KvProjectionTest, PartsOfOneWeightGiveWhatSeparateWeightsGive) {
  const WeightPart k{.weight = qkv_.get(), .columns = {kWidth, 2 * kWidth}};
  const WeightPart v{.weight = qkv_.get(), .columns = {2 * kWidth, 0}};
  EXPECT_EQ(v.width(), kWidth);
  const std::vector<float> expected = Project(Projection({.weight = k_.get()}, {.weight = v_.get()}), false);
  for (const bool one_tensor : {false, true}) {
    ExpectClose(Project(Projection(k, v), one_tensor), expected, 1e-5, "fused");
  }
  ExpectClose(Project(Projection({.weight = k_.get()}, {.weight = v_.get()}), true), expected, 1e-5, "apart");
}

TEST_P(KvProjectionTest, UpdatesAreAddedToTheirPartBeforeTheNorm) {
  const RowSums for_k(0.5f), for_v(-2.0f);
  const WeightPart k{.weight = qkv_.get(), .columns = {kWidth, 2 * kWidth}, .update = &for_k};
  const WeightPart v{.weight = qkv_.get(), .columns = {2 * kWidth, 3 * kWidth}, .update = &for_v};
  const std::vector<float> apart = Project(Projection({.weight = k_.get(), .columns = {}, .update = &for_k},
                                                      {.weight = v_.get(), .columns = {}, .update = &for_v}),
                                           false);
  ExpectClose(Project(Projection(k, v), true), apart, 1e-5, "updated");
  const std::vector<float> plain = Project(Projection({.weight = k_.get()}, {.weight = v_.get()}), true);
  EXPECT_NE(plain, apart);
}

TEST_P(KvProjectionTest, PartsAreAddedToWhatIsThere) {
  const WeightPart k{.weight = qkv_.get(), .columns = {kWidth, 2 * kWidth}};
  const RigTensor once = rig_.Make({kTokens, kWidth});
  const RigTensor twice = rig_.Make({kTokens, kWidth});
  ExpectOk(MultiplyPart(backend(), rig_.stream(), x_.view, k, once.view));
  ExpectOk(MultiplyPart(backend(), rig_.stream(), x_.view, k, twice.view));
  ExpectOk(MultiplyPart(backend(), rig_.stream(), x_.view, k, twice.view, /*accumulate=*/true));
  std::vector<float> doubled = rig_.Get(once);
  for (float& value : doubled) value *= 2.0f;
  ExpectClose(rig_.Get(twice), doubled, 1e-5, "added");
}

TEST_P(KvProjectionTest, RangesThatAreNoPartAreRefused) {
  const WeightPart between{.weight = qkv_.get(), .columns = {1, 1 + kWidth}};
  const RigTensor out = rig_.Make({kTokens, kWidth});
  EXPECT_EQ(MultiplyPart(backend(), rig_.stream(), x_.view, between, out.view).code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Backends, KvProjectionTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace scd::testing
