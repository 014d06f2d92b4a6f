// Products with quantised weights against the reference backend, which multiplies with the same numbers
// widened and does not round x.
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/kernels/parity.h"

namespace scd::testing {
namespace {

// x rounded to 8 bits in groups of 32: within 1/254 of the group's largest magnitude for each element.
constexpr double kRoundedTolerance = 4e-2;
// Up to this many rows are rounded.
constexpr std::int64_t kRoundedRows = 64;

struct Kind {
  const char* name;
  int bits;
  bool minimums;
  bool wide;  // scales of more than 16 bits
};
constexpr Kind kKinds[] = {{"4 bits", 4, false, false},
                           {"4 bits with minimums", 4, true, false},
                           {"8 bits", 8, false, false},
                           {"8 bits with minimums", 8, true, true},
                           {"4 bits with wide minimums", 4, true, true}};

QuantizedMatrix RandomMatrix(const Kind& kind, std::int64_t out, std::int64_t in) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> value(kind.bits == 4 ? 0 : -127, kind.bits == 4 ? 15 : 127);
  QuantizedMatrix matrix;
  matrix.bits = kind.bits;
  matrix.out_features = out;
  matrix.in_features = in;
  for (std::int64_t i = 0; i < out * in; ++i)
    matrix.values.push_back(static_cast<std::int8_t>(value(random)));
  const auto numbers = [&](float size) {
    std::vector<float> values = Random(out * in / kWeightGroup, kind.bits);
    for (float& number : values) {
      number *= size;
      if (!kind.wide) number = F16ToFloat(FloatToF16(number));
    }
    return values;
  };
  matrix.scales = numbers(1.0f / static_cast<float>(1 << (kind.bits - 1)));
  if (kind.minimums) matrix.minimums = numbers(0.5f);
  return matrix;
}

class QuantizedParityTest : public ParityTest {
 protected:
  static double Tolerance(std::int64_t rows) {
    const bool exact = GetParam().options.math == MathMode::kF32 && rows > kRoundedRows;
    return exact ? 1e-5 : kRoundedTolerance;
  }
};

TEST_P(QuantizedParityTest, EveryKindAndShape) {
  for (const Kind& kind : kKinds) {
    for (const auto& [out, in] : {std::pair{1, 32}, {16, 64}, {17, 576}, {131, 64}}) {
      const QuantizedMatrix matrix = RandomMatrix(kind, out, in);
      const std::vector<float> bias = Random(out, 2);
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 8, 15, 31, 64, 65, 70}) {
        const std::vector<float> x = Random(rows * in, 3);
        const std::vector<float> before = Random(rows * out, 4);
        for (const bool with_bias : {false, true}) {
          const bool accumulate = with_bias != (rows % 2 == 0);
          Compare(absl::StrCat(kind.name, " rows ", rows, " in ", in, " out ", out, " bias ", with_bias,
                               " accumulate ", accumulate),
                  Tolerance(rows), [&, out = out, in = in](BackendRig& rig) {
                    ConstTensorView bias_view;
                    if (with_bias) bias_view = ConstTensorView(bias.data(), DType::kF32, {out});
                    const auto packed = *rig.backend().PackQuantized(matrix, bias_view);
                    EXPECT_EQ(packed->in_features(), in);
                    EXPECT_EQ(packed->out_features(), out);
                    const RigTensor x_tensor = rig.Put({rows, in}, x, 5);
                    const RigTensor result = rig.Put({rows, out}, before, 3);
                    ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, *packed, result.view,
                                                  {.accumulate = accumulate}));
                    return rig.Get(result);
                  });
        }
      }
    }
  }
}

TEST_P(QuantizedParityTest, ColumnsBetweenCuts) {
  const std::vector<std::int64_t> cuts = {1, 64, 100};
  const std::vector<float> bias = Random(131, 2);
  const ConstTensorView bias_view(bias.data(), DType::kF32, {131});
  for (const Kind& kind : kKinds) {
    const QuantizedMatrix matrix = RandomMatrix(kind, 131, 96);
    for (const auto& [begin, end] : {std::pair{0, 1}, {0, 131}, {1, 64}, {1, 100}, {64, 100}, {100, 131}}) {
      for (const std::int64_t rows : {1, 5, 70}) {
        const std::vector<float> x = Random(rows * 96, 3);
        Compare(absl::StrCat(kind.name, " columns ", begin, " to ", end, " rows ", rows), Tolerance(rows),
                [&, begin = begin, end = end](BackendRig& rig) {
                  const auto packed = *rig.backend().PackQuantized(matrix, bias_view, cuts);
                  const RigTensor x_tensor = rig.Put({rows, 96}, x);
                  const RigTensor out = rig.Make({rows, end - begin}, 3);
                  ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, *packed, out.view,
                                                {.columns = {begin, end}}));
                  return rig.Get(out);
                });
      }
    }
  }
}

// Several panels of columns, of which the last is ragged.
TEST_P(QuantizedParityTest, ManyRowsOfAWideMatrix) {
  const QuantizedMatrix matrix = RandomMatrix(kKinds[1], 427, 576);
  const std::vector<float> x = Random(100 * 576, 3);
  Compare("100 rows", Tolerance(100), [&](BackendRig& rig) {
    const auto packed = *rig.backend().PackQuantized(matrix, {});
    const RigTensor x_tensor = rig.Put({100, 576}, x);
    const RigTensor out = rig.Make({100, 427});
    ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, *packed, out.view, {}));
    return rig.Get(out);
  });
}

TEST_P(QuantizedParityTest, WeightsAreQuantisedWhenPacked) {
  const std::vector<float> weight = Random(48 * 64, 1);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const std::int64_t rows : {1, 70}) {
      Compare(absl::StrCat("format ", static_cast<int>(format)), Tolerance(rows), [&](BackendRig& rig) {
        const auto packed = *rig.backend().PackWeight(ConstTensorView(weight.data(), DType::kF32, {48, 64}),
                                                      {}, {.format = format});
        const RigTensor x = rig.Put({rows, 64}, Random(rows * 64, 3));
        const RigTensor out = rig.Make({rows, 48});
        ExpectOk(rig.backend().MatMul(rig.stream(), x.view, *packed, out.view, {}));
        return rig.Get(out);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, QuantizedParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
