#include "common/translate/patch_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend_factory.h"

namespace scd {
namespace {

constexpr std::int64_t kHidden = 64, kRank = 24, kWidth = 40, kHeads = 2, kHeadDim = 8, kDKv = 16,
                       kTokens = 9;

// A matrix of its own.
struct Matrix {
  Matrix(std::mt19937& random, std::int64_t rows, std::int64_t columns, float spread)
      : shape(columns == 0 ? Shape{rows} : Shape{rows, columns}),
        values(static_cast<std::size_t>(shape.num_elements())) {
    std::normal_distribution<float> normal(0.0f, spread);
    for (float& value : values) value = normal(random);
  }
  ConstTensorView view() const { return ConstTensorView(values.data(), DType::kF32, shape); }
  double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * shape[1] + c)];
  }

  Shape shape;
  std::vector<float> values;
};

class PatchDecoderTest : public ::testing::TestWithParam<std::string> {
 protected:
  PatchTranslator translator() const {
    return {.encoder = {},
            .encoder_bias = {},
            .decoder = decoder_.view(),
            .decoder_bias = decoder_bias_.view(),
            .mlp_in = mlp_in_.view(),
            .mlp_in_bias = mlp_in_bias_.view(),
            .mlp_out = mlp_out_.view(),
            .mlp_out_bias = mlp_out_bias_.view()};
  }

  // [K V] of a token as the bundle's formula says it, in double, before k_norm.
  std::vector<double> Expected(std::int64_t token) const {
    std::vector<double> hidden(kHidden);
    for (std::int64_t h = 0; h < kHidden; ++h) {
      hidden[h] = double{decoder_bias_.values[h]} + mlp_out_bias_.values[h];
      for (std::int64_t r = 0; r < kRank; ++r) hidden[h] += decoder_.at(h, r) * codes_.at(token, r);
    }
    for (std::int64_t w = 0; w < kWidth; ++w) {
      double x = mlp_in_bias_.values[w];
      for (std::int64_t r = 0; r < kRank; ++r) x += mlp_in_.at(w, r) * codes_.at(token, r);
      const double active = x / (1 + std::exp(-x));
      for (std::int64_t h = 0; h < kHidden; ++h) hidden[h] += mlp_out_.at(h, w) * active;
    }
    std::vector<double> kv(2 * kDKv);
    for (std::int64_t o = 0; o < 2 * kDKv; ++o) {
      kv[o] = bias_.values[o];
      for (std::int64_t h = 0; h < kHidden; ++h) kv[o] += weight_.at(o, h) * hidden[h];
    }
    return kv;
  }

  static KvProjection Projection(const WeightPart& k, const WeightPart& v) {
    KvProjection projection;
    projection.k = k;
    projection.v = v;
    projection.num_kv_heads = kHeads;
    projection.head_dim = kHeadDim;
    return projection;
  }
  static KvProjection Projection(const PackedWeight& both) {
    return Projection({.weight = &both, .columns = {0, kDKv}},
                      {.weight = &both, .columns = {kDKv, 2 * kDKv}});
  }

  // Decodes into neighbouring columns and compares.
  void Check(const KvProjection& projection, double tolerance) {
    const auto decoder = PatchDecoder::Create(translator(), projection, *backend_);
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    EXPECT_EQ((*decoder)->work_width(), kRank + kWidth);
    std::vector<float> work(static_cast<std::size_t>(kTokens * (kRank + kWidth)));
    std::vector<float> kv(static_cast<std::size_t>(kTokens * 2 * kDKv));
    const TensorView out(kv.data(), DType::kF32, Shape{kTokens, 2 * kDKv});
    const absl::Status status = (*decoder)->Decode(
        *stream_, codes_.view(), TensorView(work.data(), DType::kF32, {kTokens, kRank + kWidth}),
        out.columns(0, kDKv), out.columns(kDKv, kDKv));
    ASSERT_TRUE(status.ok()) << status;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::vector<double> expected = Expected(t);
      if (!projection.k_norm.empty()) {
        for (std::int64_t h = 0; h < kHeads; ++h) {
          double squares = 0;
          for (std::int64_t i = 0; i < kHeadDim; ++i) squares += std::pow(expected[h * kHeadDim + i], 2);
          const double factor = 1 / std::sqrt(squares / kHeadDim + projection.norm_epsilon);
          for (std::int64_t i = 0; i < kHeadDim; ++i)
            expected[h * kHeadDim + i] *= factor * k_norm_.values[i];
        }
      }
      for (std::int64_t o = 0; o < 2 * kDKv; ++o) {
        EXPECT_NEAR(out.row<float>(t)[o], expected[o], tolerance) << "token " << t << ", column " << o;
      }
    }
  }

  std::mt19937 random_{7};
  const Matrix decoder_{random_, kHidden, kRank, 0.2f}, decoder_bias_{random_, kHidden, 0, 1.0f};
  const Matrix mlp_in_{random_, kWidth, kRank, 0.3f}, mlp_in_bias_{random_, kWidth, 0, 0.5f};
  const Matrix mlp_out_{random_, kHidden, kWidth, 0.2f}, mlp_out_bias_{random_, kHidden, 0, 0.1f};
  Matrix weight_{random_, 2 * kDKv, kHidden, 0.1f};
  const Matrix codes_{random_, kTokens, kRank, 1.0f};
  const Matrix bias_{random_, 2 * kDKv, 0, 100.0f};  // as large as those of some models
  const Matrix k_norm_{random_, kHeadDim, 0, 1.0f};
  const std::unique_ptr<Backend> backend_ =
      *CreateBackend({.device = GetParam(), .num_threads = 2, .math = MathMode::kF32});
  const std::unique_ptr<Stream> stream_ = *backend_->CreateStream();
};

TEST_P(PatchDecoderTest, IsTheAlignerFollowedByTheProjection) {
  const std::int64_t cut = kDKv;
  const auto weight =
      *backend_->PackWeight(weight_.view(), bias_.view(), {.cuts = absl::MakeConstSpan(&cut, 1)});
  KvProjection projection = Projection(*weight);
  Check(projection, 1e-4);
  projection.k_norm = k_norm_.view();
  projection.norm_epsilon = 1e-6f;
  Check(projection, 1e-4);
}

TEST_P(PatchDecoderTest, TakesSeparateWeights) {
  const auto k = *backend_->PackWeight(weight_.view().rows(0, kDKv), bias_.view().rows(0, kDKv));
  const auto v = *backend_->PackWeight(weight_.view().rows(kDKv, kDKv), bias_.view().rows(kDKv, kDKv));
  Check(Projection({.weight = k.get()}, {.weight = v.get()}), 1e-4);
}

// The maps are few enough rows for a product that would round them.
TEST_P(PatchDecoderTest, RoundsNothingBesideAQuantisedProjection) {
  const auto quantized = QuantizeMatrix(weight_.view(), 8);
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  std::vector<float> values(static_cast<std::size_t>(2 * kDKv * kHidden));
  for (std::int64_t o = 0; o < 2 * kDKv; ++o) DequantizeRow(*quantized, o, values.data() + o * kHidden);
  weight_.values = values;
  const std::int64_t cut = kDKv;
  const auto weight = *backend_->PackQuantized(*quantized, bias_.view(), absl::MakeConstSpan(&cut, 1));
  Check(Projection(*weight), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Backends, PatchDecoderTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
