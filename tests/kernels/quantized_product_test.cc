// The integer products of the cpu backend against a plain model with the same rounding of x, for every
// instruction set of this CPU.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "hwy/targets.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/onednn_products.h"
#include "kernels/cpu/quantized_panel.h"
#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

constexpr std::int64_t kOut = 37;
constexpr std::int64_t kIn = 160;
constexpr std::int64_t kGroups = kIn / kWeightGroup;

// The largest and the least integers often, as these are where sums of 16 bits would overflow.
QuantizedMatrix ExtremeMatrix(int bits, bool minimums, bool wide) {
  const int least = bits == 4 ? 0 : -127;
  const int greatest = bits == 4 ? 15 : 127;
  const std::vector<float> choice = Random(kOut * kIn, 1);
  QuantizedMatrix matrix;
  matrix.bits = bits;
  matrix.out_features = kOut;
  matrix.in_features = kIn;
  for (std::int64_t i = 0; i < kOut * kIn; ++i) {
    const float value = choice[static_cast<std::size_t>(i)];
    const bool first_group = i % kIn < kWeightGroup;
    const int number = first_group || value > 0.3f ? greatest
                       : value < -0.3f             ? least
                                                   : (least + greatest) / 3;
    matrix.values.push_back(static_cast<std::int8_t>(number));
  }
  const auto numbers = [&](unsigned seed) {
    std::vector<float> values = Random(kOut * kGroups, seed);
    for (float& value : values) value = wide ? value : F16ToFloat(FloatToF16(value));
    return values;
  };
  matrix.scales = numbers(2);
  if (minimums) matrix.minimums = numbers(3);
  return matrix;
}

// The first group at full size, with one sign in even rows and alternating in odd ones; the last one 0.
std::vector<float> ExtremeRows(std::int64_t rows) {
  std::vector<float> x = Random(rows * kIn, 4);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < kWeightGroup; ++i) {
      x[static_cast<std::size_t>(r * kIn + i)] = r % 2 == 1 && i % 2 == 1 ? -3.0f : 3.0f;
      x[static_cast<std::size_t>(r * kIn + kIn - 1 - i)] = 0.0f;
    }
  }
  return x;
}

std::vector<float> Model(const QuantizedMatrix& matrix, const std::vector<float>& x) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / kIn;
  std::vector<float> out;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < kOut; ++o) {
      double result = 0.0;
      for (std::int64_t g = 0; g < kGroups; ++g) {
        const float* x_group = x.data() + r * kIn + g * kWeightGroup;
        const std::int8_t* w_group = matrix.values.data() + o * kIn + g * kWeightGroup;
        float largest = 0.0f;
        for (std::int64_t i = 0; i < kWeightGroup; ++i) largest = std::max(largest, std::abs(x_group[i]));
        const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
        std::int64_t products = 0;
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < kWeightGroup; ++i) {
          const auto rounded = static_cast<std::int64_t>(std::nearbyint(x_group[i] * inverse));
          products += rounded * w_group[i];
          sum += rounded;
        }
        const auto group = static_cast<std::size_t>(o * kGroups + g);
        const double x_scale = largest / 127.0f;
        result += x_scale * matrix.scales[group] * static_cast<double>(products);
        if (!matrix.minimums.empty()) result += x_scale * matrix.minimums[group] * static_cast<double>(sum);
      }
      out.push_back(static_cast<float>(result));
    }
  }
  return out;
}

class QuantizedProductTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  std::vector<float> Multiply(const QuantizedMatrix& matrix, const std::vector<float>& x) {
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / kIn;
    const auto packed = *rig_.backend().PackQuantized(matrix, {});
    const RigTensor x_tensor = rig_.Put({rows, kIn}, x);
    const RigTensor out = rig_.Make({rows, kOut});
    ExpectOk(rig_.backend().MatMul(rig_.stream(), x_tensor.view, *packed, out.view, {}));
    return rig_.Get(out);
  }

  BackendRig rig_{{.device = "cpu", .num_threads = 2, .math = MathMode::kF32}};
};

TEST_P(QuantizedProductTest, IsTheRoundedProduct) {
  for (const int bits : {4, 8}) {
    for (const bool minimums : {false, true}) {
      for (const bool wide : {false, true}) {
        const QuantizedMatrix matrix = ExtremeMatrix(bits, minimums, wide);
        ExpectOk(matrix.Validate());
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64}) {
          const std::vector<float> x = ExtremeRows(rows);
          ExpectClose(Multiply(matrix, x), Model(matrix, x), 2e-6,
                      absl::StrCat(bits, " bits, minimums ", minimums, ", wide ", wide, ", rows ", rows));
        }
      }
    }
  }
}

TEST_P(QuantizedProductTest, ARowDoesNotDependOnThoseBesideIt) {
  const QuantizedMatrix matrix = ExtremeMatrix(4, true, false);
  const std::vector<float> x = ExtremeRows(21);
  const std::vector<float> together = Multiply(matrix, x);
  for (std::int64_t r = 0; r < 21; ++r) {
    const std::vector<float> alone =
        Multiply(matrix, std::vector<float>(x.begin() + r * kIn, x.begin() + (r + 1) * kIn));
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * kOut)) << r;
  }
}

TEST_P(QuantizedProductTest, NumbersThatAreNotFiniteShow) {
  for (const int bits : {4, 8}) {
    const QuantizedMatrix matrix = ExtremeMatrix(bits, false, false);
    for (const float flaw : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = ExtremeRows(3);
      x[kIn + 40] = flaw;
      const std::vector<float> out = Multiply(matrix, x);
      for (std::int64_t o = 0; o < kOut; ++o) {
        EXPECT_TRUE(std::isfinite(out[static_cast<std::size_t>(o)]));
        EXPECT_FALSE(std::isfinite(out[static_cast<std::size_t>(kOut + o)]));
        EXPECT_TRUE(std::isfinite(out[static_cast<std::size_t>(2 * kOut + o)]));
      }
    }
  }
}

TEST_P(QuantizedProductTest, NumbersNearZeroVanish) {
  const QuantizedMatrix matrix = ExtremeMatrix(8, true, false);
  for (const float value : Multiply(matrix, std::vector<float>(kIn, 1e-42f))) EXPECT_EQ(value, 0.0f);
}

TEST_P(QuantizedProductTest, WidensToTheNumbersOfTheMatrix) {
  for (const int bits : {4, 8}) {
    const QuantizedMatrix matrix = ExtremeMatrix(bits, bits == 4, bits == 8);
    // Blocks of 5, of 16 and of 16 columns.
    const auto blocks = *cpu::QuantizedBlocks::Create(matrix, {5});
    const cpu::Range range = blocks.BlocksOf({5, kOut});
    ASSERT_EQ(range.begin, 1);
    ASSERT_EQ(range.end, 3);
    std::vector<float> panel(kIn * 32);
    std::vector<std::uint16_t> half_panel(kIn * 32);
    cpu::DequantizeBlocks(blocks, range, panel.data());
    cpu::DequantizeBlocks(blocks, range, half_panel.data());
    std::vector<float> row(kIn);
    for (std::int64_t column = 0; column < 32; ++column) {
      DequantizeRow(matrix, 5 + column, row.data());
      for (std::int64_t i = 0; i < kIn; ++i) {
        const auto index = static_cast<std::size_t>(i * 32 + column);
        // Instruction sets differ in whether the product is rounded before the minimum is added.
        EXPECT_NEAR(panel[index], row[static_cast<std::size_t>(i)], 1e-5);
        EXPECT_EQ(half_panel[index], FloatToBf16(panel[index]));
      }
    }
  }
}

TEST(QuantizedWeightTest, ProductsOfManyRowsInBf16NeedItInTheCpu) {
  const QuantizedMatrix matrix = ExtremeMatrix(4, true, false);
  const auto packed = cpu::PackQuantizedWeight(matrix, {}, {}, DType::kBF16);
  if (!cpu::OneDnnHasBf16()) {
    EXPECT_EQ(packed.status().code(), absl::StatusCode::kUnimplemented);
    return;
  }
  ASSERT_TRUE(packed.ok()) << packed.status();
  BackendRig reference({.device = "reference", .math = MathMode::kBF16});
  const auto expected_weight = *reference.backend().PackQuantized(matrix, {});
  const auto pool = *cpu::ThreadPool::Create(2);
  const std::vector<float> x = ExtremeRows(300);
  const ConstTensorView x_view(x.data(), DType::kF32, {300, kIn});
  std::vector<float> actual(300 * kOut);
  std::vector<float> expected(300 * kOut);
  ExpectOk((*packed)->Multiply(*pool, x_view, TensorView(actual.data(), DType::kF32, {300, kOut}), {0, kOut},
                               false));
  ExpectOk(reference.backend().MatMul(reference.stream(), x_view, *expected_weight,
                                      TensorView(expected.data(), DType::kF32, {300, kOut}), {}));
  ExpectClose(actual, expected, 1e-5, "300 rows");
}

INSTANTIATE_TEST_SUITE_P(OfThisCpu, QuantizedProductTest,
                         ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

}  // namespace
}  // namespace scd::testing
