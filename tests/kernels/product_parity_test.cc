#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/kernels/parity.h"

namespace scd::testing {
namespace {

class ProductParityTest : public ParityTest {};

constexpr std::int64_t kRows[] = {1, 2, 3, 16, 17, 65};

struct Features {
  std::int64_t in;
  std::int64_t out;
};
constexpr Features kFeatures[] = {{1, 1}, {5, 7}, {64, 5}, {7, 64}, {576, 192}, {192, 577}};

TEST_P(ProductParityTest, MatMul) {
  for (const Features& features : kFeatures) {
    const Shape shape = {features.out, features.in};
    const std::vector<float> weight = Random(shape.num_elements(), 1);
    const std::vector<float> bias = Random(features.out, 2);
    for (const std::int64_t rows : kRows) {
      const std::vector<float> x = Random(rows * features.in, 3);
      const std::vector<float> before = Random(rows * features.out, 4);
      for (const bool with_bias : {false, true}) {
        for (const bool accumulate : {false, true}) {
          Compare(absl::StrCat("rows ", rows, " in ", features.in, " out ", features.out, " bias ", with_bias,
                               " accumulate ", accumulate),
                  GetParam().product_tolerance, [&](BackendRig& rig) {
                    const auto packed = rig.Pack(shape, weight, with_bias ? bias : std::vector<float>());
                    EXPECT_EQ(packed->in_features(), features.in);
                    EXPECT_EQ(packed->out_features(), features.out);
                    const RigTensor x_tensor = rig.Put({rows, features.in}, x);
                    const RigTensor out =
                        accumulate ? rig.Put({rows, features.out}, before) : rig.Make({rows, features.out});
                    ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, *packed, out.view,
                                                  {.accumulate = accumulate}));
                    return rig.Get(out);
                  });
        }
      }
    }
  }
}

TEST_P(ProductParityTest, MatMulOfStridedViewsAndHalfWeights) {
  const Shape shape = {93, 75};
  const std::vector<float> weight = Random(shape.num_elements(), 1);
  const std::vector<float> bias = Random(shape[0], 2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int64_t rows : {1, 3, 17, 130}) {
      const std::vector<float> x = Random(rows * shape[1], 3);
      Compare(absl::StrCat("rows ", rows, " dtype ", static_cast<int>(dtype)), GetParam().product_tolerance,
              [&](BackendRig& rig) {
                const auto packed = rig.Pack(shape, weight, bias, dtype);
                const RigTensor x_tensor = rig.Put({rows, shape[1]}, x, 5);
                const RigTensor out = rig.Make({rows, shape[0]}, 3);
                ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, *packed, out.view, {}));
                return rig.Get(out);
              });
    }
  }
}

TEST_P(ProductParityTest, WeightsFromStridedRows) {
  const std::vector<float> wide = Random(20 * 50, 1);
  const std::vector<float> x = Random(4 * 31, 2);
  Compare("weight columns 7 to 38 of 50", GetParam().product_tolerance, [&](BackendRig& rig) {
    const ConstTensorView weight = ConstTensorView(wide.data(), DType::kF32, {20, 50}).columns(7, 31);
    auto packed = rig.backend().PackWeight(weight, {});
    EXPECT_TRUE(packed.ok());
    const RigTensor x_tensor = rig.Put({4, 31}, x);
    const RigTensor out = rig.Make({4, 20});
    ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, **packed, out.view, {}));
    return rig.Get(out);
  });
}

TEST_P(ProductParityTest, ColumnsBetweenCuts) {
  const Shape shape = {131, 64};
  const std::vector<std::int64_t> cuts = {1, 64, 100};
  const std::vector<float> weight = Random(shape.num_elements(), 1);
  const std::vector<float> bias = Random(shape[0], 2);
  for (const auto& [begin, end] : {std::pair{0, 1}, {0, 131}, {1, 64}, {1, 100}, {64, 100}, {100, 131}}) {
    for (const std::int64_t rows : {1, 5, 70}) {
      const std::vector<float> x = Random(rows * shape[1], 3);
      const std::vector<float> before = Random(rows * (end - begin), 4);
      for (const bool accumulate : {false, true}) {
        Compare(absl::StrCat("columns ", begin, " to ", end, " rows ", rows, " accumulate ", accumulate),
                GetParam().product_tolerance, [&](BackendRig& rig) {
                  const auto packed = *rig.backend().PackWeight(
                      ConstTensorView(weight.data(), DType::kF32, shape),
                      ConstTensorView(bias.data(), DType::kF32, {shape[0]}), {.cuts = cuts});
                  const RigTensor x_tensor = rig.Put({rows, shape[1]}, x);
                  const RigTensor out = rig.Put({rows, end - begin}, before, 3);
                  ExpectOk(rig.backend().MatMul(rig.stream(), x_tensor.view, *packed, out.view,
                                                {.accumulate = accumulate, .columns = {begin, end}}));
                  return rig.Get(out);
                });
      }
    }
  }
}

TEST_P(ProductParityTest, Gemm) {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const Sizes& size :
       {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{17, 64, 5}, Sizes{200, 130, 65}, Sizes{64, 64, 300}}) {
    const std::vector<float> a = Random(size.m * size.k, 1);
    const std::vector<float> b = Random(size.k * size.n, 2);
    const std::vector<float> c = Random(size.m * size.n, 3);
    for (int mask = 0; mask < 16; ++mask) {
      const GemmOptions options{.transpose_a = (mask & 1) != 0,
                                .transpose_b = (mask & 2) != 0,
                                .alpha = (mask & 4) != 0 ? 0.5f : 1.0f,
                                .beta = (mask & 4) != 0 ? -2.0f : 0.0f};
      const std::int64_t gap = (mask & 8) != 0 ? 3 : 0;
      Compare(
          absl::StrCat("m ", size.m, " n ", size.n, " k ", size.k, " options ", mask), 1e-5,
          [&](BackendRig& rig) {
            const Shape a_shape = options.transpose_a ? Shape{size.k, size.m} : Shape{size.m, size.k};
            const Shape b_shape = options.transpose_b ? Shape{size.n, size.k} : Shape{size.k, size.n};
            const RigTensor a_tensor = rig.Put(a_shape, a, gap);
            const RigTensor b_tensor = rig.Put(b_shape, b, gap);
            // With beta 0 the old values, which are not numbers here, must not be read.
            const RigTensor c_tensor =
                rig.Put({size.m, size.n}, options.beta == 0.0f ? std::vector<float>(c.size(), NAN) : c, gap);
            ExpectOk(rig.backend().Gemm(rig.stream(), a_tensor.view, b_tensor.view, c_tensor.view, options));
            return rig.Get(c_tensor);
          });
    }
  }
}

TEST_P(ProductParityTest, NoRowsIsNothingToDo) {
  const auto packed = tested_.Pack({4, 3}, Random(12, 1), {});
  const RigTensor x = tested_.Make({0, 3});
  const RigTensor out = tested_.Make({0, 4});
  ExpectOk(tested_.backend().MatMul(tested_.stream(), x.view, *packed, out.view, {}));
}

INSTANTIATE_TEST_SUITE_P(Backends, ProductParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
