#include "kernels/quantized_matrix.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

using ::testing::HasSubstr;

QuantizedMatrix Good() {
  QuantizedMatrix matrix;
  matrix.bits = 4;
  matrix.out_features = 2;
  matrix.in_features = 64;
  matrix.values.assign(128, 15);
  matrix.scales.assign(4, 0.5f);
  matrix.minimums.assign(4, -1.0f);
  return matrix;
}

TEST(QuantizedMatrixTest, ValidateNamesTheField) {
  ExpectOk(Good().Validate());
  const auto expect_refused = [](const std::function<void(QuantizedMatrix&)>& spoil, const char* field) {
    QuantizedMatrix matrix = Good();
    spoil(matrix);
    EXPECT_EQ(matrix.Validate().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(matrix.Validate().message()), HasSubstr(field));
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  expect_refused([](QuantizedMatrix& m) { m.bits = 5; }, "bits");
  expect_refused([](QuantizedMatrix& m) { m.out_features = 0; }, "out_features");
  expect_refused([](QuantizedMatrix& m) { m.out_features = -2; }, "out_features");
  expect_refused([](QuantizedMatrix& m) { m.out_features = 3; }, "values");
  expect_refused([](QuantizedMatrix& m) { m.out_features = kHuge; }, "out_features");
  expect_refused([](QuantizedMatrix& m) { m.in_features = 48; }, "in_features");
  expect_refused([](QuantizedMatrix& m) { m.in_features = 0; }, "in_features");
  expect_refused([](QuantizedMatrix& m) { m.in_features = kHuge; }, "in_features");
  expect_refused([](QuantizedMatrix& m) { m.values.pop_back(); }, "values");
  expect_refused([](QuantizedMatrix& m) { m.values[77] = 16; }, "values");
  expect_refused([](QuantizedMatrix& m) { m.values[77] = -1; }, "values");
  expect_refused([](QuantizedMatrix& m) { m.bits = 8, m.values[127] = -128; }, "values");
  expect_refused([](QuantizedMatrix& m) { m.scales.pop_back(); }, "scales");
  expect_refused([](QuantizedMatrix& m) { m.scales[3] = NAN; }, "scales");
  expect_refused([](QuantizedMatrix& m) { m.scales[0] = INFINITY; }, "scales");
  expect_refused([](QuantizedMatrix& m) { m.minimums.push_back(0); }, "minimums");
  expect_refused([](QuantizedMatrix& m) { m.minimums[1] = -INFINITY; }, "minimums");
}

TEST(QuantizedMatrixTest, DequantizesGroupByGroup) {
  QuantizedMatrix matrix = Good();
  matrix.scales = {1.0f, 2.0f, 3.0f, 4.0f};
  matrix.minimums = {0.0f, 10.0f, 20.0f, 30.0f};
  matrix.values[64] = 1;
  std::vector<float> row(64);
  DequantizeRow(matrix, 1, row.data());
  EXPECT_EQ(row[0], 23.0f);
  EXPECT_EQ(row[1], 65.0f);
  EXPECT_EQ(row[32], 90.0f);
  matrix.minimums.clear();
  DequantizeRow(matrix, 1, row.data());
  EXPECT_EQ(row[0], 3.0f);
}

class QuantizeTest : public ::testing::TestWithParam<int> {
 protected:
  // The largest error in units of the group's scale.
  static double WorstError(const std::vector<float>& weight, std::int64_t in, QuantizedMatrix* matrix) {
    const std::int64_t out = static_cast<std::int64_t>(weight.size()) / in;
    auto quantized = QuantizeMatrix(ConstTensorView(weight.data(), DType::kF32, {out, in}), GetParam());
    ExpectOk(quantized.status());
    *matrix = *std::move(quantized);
    ExpectOk(matrix->Validate());
    double worst = 0.0;
    std::vector<float> row(static_cast<std::size_t>(in));
    for (std::int64_t o = 0; o < out; ++o) {
      DequantizeRow(*matrix, o, row.data());
      for (std::int64_t i = 0; i < in; ++i) {
        const float scale = matrix->scales[static_cast<std::size_t>((o * in + i) / kWeightGroup)];
        const double error =
            std::abs(double{row[static_cast<std::size_t>(i)]} - weight[static_cast<std::size_t>(o * in + i)]);
        worst = std::max(worst, scale == 0.0f ? error * 1e30 : error / scale);
      }
    }
    return worst;
  }
};

TEST_P(QuantizeTest, IsWithinHalfAStep) {
  QuantizedMatrix matrix;
  std::vector<float> weight = Random(5 * 96, 1);
  EXPECT_LT(WorstError(weight, 96, &matrix), 0.501);
  EXPECT_EQ(matrix.bits, GetParam());
  EXPECT_EQ(matrix.minimums.empty(), GetParam() == 8);
  // The usual size of weights, and sizes near the ends of what 16 bits hold.
  for (const float size : {1e-2f, 1e-6f, 1e3f, 1e20f}) {
    std::vector<float> scaled = weight;
    for (float& w : scaled) w *= size;
    EXPECT_LT(WorstError(scaled, 96, &matrix), 0.501) << size;
  }
}

TEST_P(QuantizeTest, ScalesAndMinimumsHaveSixteenBits) {
  QuantizedMatrix matrix;
  WorstError(Random(5 * 96, 1), 96, &matrix);
  for (const auto& numbers : {matrix.scales, matrix.minimums}) {
    for (const float number : numbers) EXPECT_EQ(F16ToFloat(FloatToF16(number)), number);
  }
}

TEST_P(QuantizeTest, GroupsOfOneNumberAreKept) {
  QuantizedMatrix matrix;
  EXPECT_EQ(WorstError(std::vector<float>(64, 0.0f), 32, &matrix), 0.0);
  EXPECT_LT(WorstError(std::vector<float>(64, 0.1f), 32, &matrix), 0.501);
  EXPECT_LT(WorstError(std::vector<float>(64, -3.0f), 32, &matrix), 0.501);
}

TEST_P(QuantizeTest, TakesStridedHalves) {
  const std::vector<float> wide = Random(3 * 80, 1);
  std::vector<std::uint16_t> halves;
  std::vector<float> widened;
  for (const float value : wide) halves.push_back(FloatToF16(value));
  for (const std::uint16_t value : halves) widened.push_back(F16ToFloat(value));
  const auto of_halves =
      QuantizeMatrix(ConstTensorView(halves.data(), DType::kF16, {3, 80}).columns(7, 64), GetParam());
  const auto of_floats =
      QuantizeMatrix(ConstTensorView(widened.data(), DType::kF32, {3, 80}).columns(7, 64), GetParam());
  ExpectOk(of_halves.status());
  ExpectOk(of_floats.status());
  EXPECT_EQ(of_halves->in_features, 64);
  EXPECT_EQ(of_halves->values, of_floats->values);
  EXPECT_EQ(of_halves->scales, of_floats->scales);
}

TEST_P(QuantizeTest, RefusesOtherMatrices) {
  std::vector<float> weight(96, 1.0f);
  const auto code = [](const ConstTensorView& view, int bits) {
    return QuantizeMatrix(view, bits).status().code();
  };
  EXPECT_EQ(code(ConstTensorView(weight.data(), DType::kF32, {2, 48}), GetParam()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ConstTensorView(weight.data(), DType::kF32, {96}), GetParam()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ConstTensorView(weight.data(), DType::kI32, {3, 32}), GetParam()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({}, GetParam()), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ConstTensorView(weight.data(), DType::kF32, {3, 32}), GetParam() + 1),
            absl::StatusCode::kInvalidArgument);
  weight[50] = NAN;
  EXPECT_EQ(code(ConstTensorView(weight.data(), DType::kF32, {3, 32}), GetParam()),
            absl::StatusCode::kInvalidArgument);
  weight[50] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(code(ConstTensorView(weight.data(), DType::kF32, {3, 32}), GetParam()),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Bits, QuantizeTest, ::testing::Values(4, 8));

}  // namespace
}  // namespace scd::testing
