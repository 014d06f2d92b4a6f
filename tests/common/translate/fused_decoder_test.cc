#include "common/translate/fused_decoder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/config/entropy_tables.h"
#include "common/wire/entropy_coder.h"
#include "kernels/backend_factory.h"
#include "tests/common/translate/expected.h"

namespace scd {
namespace {

using testing::DeviceTensor;
using testing::ExpectNear;
using testing::kDKv;
using testing::Values;

constexpr std::int64_t kRank = 6, kWidth = 5, kFusedTokens = 70;

class FusedDecoderTest : public ::testing::TestWithParam<std::string> {
 protected:
  FusedTranslator Translator(const std::string& name) const {
    return {.encoder = expected_.Get(name + ".encoder"),
            .encoder_bias = expected_.Get(name + ".encoder_bias"),
            .decoder = expected_.Get(name + ".decoder"),
            .decoder_bias = expected_.Get(name + ".decoder_bias"),
            .mlp_in = expected_.Get(name + ".mlp_in"),
            .mlp_in_bias = expected_.Get(name + ".mlp_in_bias"),
            .mlp_out = expected_.Get(name + ".mlp_out"),
            .mlp_out_bias = expected_.Get(name + ".mlp_out_bias")};
  }

  std::unique_ptr<FusedDecoder> Make(const std::string& name) {
    auto decoder = FusedDecoder::Create(Translator(name), *backend_);
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    return *std::move(decoder);
  }

  // [K V] of every row, decoded into neighbouring columns. What is in the work memory before means nothing.
  std::vector<float> Decoded(const FusedDecoder& decoder, const ConstTensorView& codes) {
    const std::int64_t tokens = codes.dim(0);
    const DeviceTensor work(*backend_, Shape{tokens, decoder.work_width()});
    std::fill_n(work.view().as<float>(), work.view().num_elements(), 1e9f);
    const DeviceTensor kv(*backend_, Shape{tokens, 2 * kDKv});
    const absl::Status status = decoder.Decode(*stream_, codes, work.view(), kv.view().columns(0, kDKv),
                                               kv.view().columns(kDKv, kDKv));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(backend_->Synchronize(*stream_).ok());
    return Values(kv.view());
  }

  const testing::Expected expected_;
  const std::unique_ptr<Backend> backend_ =
      *CreateBackend({.device = GetParam(), .num_threads = 2, .math = MathMode::kF32});
  const std::unique_ptr<Stream> stream_ = *backend_->CreateStream();
};

TEST_P(FusedDecoderTest, IsWhatNumpyComputes) {
  for (const std::int64_t window : {1, 2, 3}) {
    const std::string name = "fused." + std::to_string(window);
    const auto decoder = Make(name);
    EXPECT_EQ(decoder->work_width(), window * kRank + kWidth);
    const std::vector<float> all = Values(expected_.Get(name + ".kv"));
    // From the first token of a granule, for as many as there are.
    for (const std::int64_t tokens : {1, 2, 3, 31, 32, 33, 34, 64, 65, 70}) {
      const std::vector<float> decoded = Decoded(*decoder, expected_.Get(name + ".codes").rows(0, tokens));
      ExpectNear(decoded, {all.begin(), all.begin() + tokens * 2 * kDKv}, 2e-6f);
    }
  }
}

TEST_P(FusedDecoderTest, EntropyCodedNumbersAreThoseOfTheGrid) {
  const std::vector<float> steps = Values(expected_.Get("fused.steps"));
  std::vector<std::int32_t> frequencies;
  for (const float step : steps) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(kEntropySymbols), 1);
    const std::vector<std::int32_t> column =
        step == 0 ? std::vector<std::int32_t>(counts.size()) : FitFrequencies(counts);
    frequencies.insert(frequencies.end(), column.begin(), column.end());
  }
  const auto coder = EntropyCoder::Create({.steps = steps, .frequencies = frequencies});
  ASSERT_TRUE(coder.ok()) << coder.status();
  for (const std::int64_t window : {1, 2, 3}) {
    const std::string name = "fused." + std::to_string(window);
    const auto payload = (*coder)->Encode(expected_.Get(name + ".codes").as<float>(), kFusedTokens);
    ASSERT_TRUE(payload.ok()) << payload.status();
    const DeviceTensor numbers(*backend_, Shape{kFusedTokens, kRank});
    ASSERT_TRUE((*coder)->Decode(*payload, kFusedTokens, 0, kFusedTokens, numbers.view().as<float>()).ok());
    ExpectNear(Decoded(*Make(name), numbers.view()), Values(expected_.Get(name + ".kv_on_grid")), 2e-6f);
  }
}

// So that it does not matter how codes were cut on their way. A product of more rows may round in another
// order.
TEST_P(FusedDecoderTest, GranulesStandAlone) {
  for (const std::int64_t window : {1, 2, 3}) {
    const std::string name = "fused." + std::to_string(window);
    const auto decoder = Make(name);
    const ConstTensorView codes = expected_.Get(name + ".codes");
    std::vector<float> one_by_one;
    for (std::int64_t begin = 0; begin < kFusedTokens; begin += 32) {
      const std::vector<float> granule =
          Decoded(*decoder, codes.rows(begin, std::min<std::int64_t>(32, kFusedTokens - begin)));
      one_by_one.insert(one_by_one.end(), granule.begin(), granule.end());
    }
    const std::vector<float> whole = Decoded(*decoder, codes);
    ExpectNear(one_by_one, whole, GetParam() == "reference" ? 0.0f : 1e-5f);
  }
}

TEST_P(FusedDecoderTest, CodesMayLieInAWiderMatrixAndKAndVApart) {
  const auto decoder = Make("fused.2");
  const ConstTensorView codes = expected_.Get("fused.2.codes");
  const DeviceTensor wide(*backend_, Shape{kFusedTokens, 11});
  for (std::int64_t t = 0; t < kFusedTokens; ++t) {
    std::copy_n(codes.row<float>(t), kRank, wide.view().row<float>(t) + 3);
  }
  const DeviceTensor work(*backend_, Shape{kFusedTokens, decoder->work_width()});
  const DeviceTensor k(*backend_, Shape{kFusedTokens, kDKv}), v(*backend_, Shape{kFusedTokens, kDKv});
  ASSERT_TRUE(
      decoder
          ->Decode(*stream_, ConstTensorView(wide.view()).columns(3, kRank), work.view(), k.view(), v.view())
          .ok());
  ASSERT_TRUE(backend_->Synchronize(*stream_).ok());
  const ConstTensorView expected = expected_.Get("fused.2.kv");
  for (std::int64_t t = 0; t < kFusedTokens; ++t) {
    for (std::int64_t c = 0; c < kDKv; ++c) {
      EXPECT_NEAR(k.view().row<float>(t)[c], expected.row<float>(t)[c], 1e-5) << t << " " << c;
      EXPECT_NEAR(v.view().row<float>(t)[c], expected.row<float>(t)[kDKv + c], 1e-5) << t << " " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, FusedDecoderTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace scd
