// The weights that oneDNN lays out, which the cpu backend takes where the CPU multiplies bf16. In f32 every
// CPU has them, so that slices, blocks of rows, bias and accumulation are tested everywhere.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/onednn_matmul.h"
#include "tests/kernels/backend_rig.h"

namespace scd::cpu {
namespace {

using ::scd::testing::BackendRig;
using ::scd::testing::ExpectClose;
using ::scd::testing::ExpectOk;
using ::scd::testing::Random;

class OneDnnWeightTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (GetParam() == DType::kBF16 && !OneDnnHasBf16()) {
      const std::vector<float> values(4, 1.0f);
      const ConstTensorView weight(values.data(), DType::kF32, {2, 2});
      EXPECT_EQ(PackOneDnnWeight(weight, {}, {}, DType::kBF16, 1).status().code(),
                absl::StatusCode::kUnimplemented);
      here_ = false;
    }
  }

  bool here_ = true;
};

TEST_P(OneDnnWeightTest, MultipliesLikeTheReference) {
  if (!here_) return;
  BackendRig reference(
      {.device = "reference", .math = GetParam() == DType::kBF16 ? MathMode::kBF16 : MathMode::kF32});
  const auto pool = *ThreadPool::Create(3);
  for (const Shape& shape : {Shape{5, 7}, Shape{64, 96}, Shape{200, 65}}) {
    const std::vector<float> values = Random(shape.num_elements(), 1);
    const std::vector<float> bias = Random(shape[0], 2);
    const ConstTensorView weight(values.data(), DType::kF32, shape);
    for (const bool with_bias : {false, true}) {
      ConstTensorView bias_view;
      if (with_bias) bias_view = ConstTensorView(bias.data(), DType::kF32, {shape[0]});
      const auto packed = PackOneDnnWeight(weight, bias_view, {}, GetParam(), 3);
      ASSERT_TRUE(packed.ok()) << packed.status();
      EXPECT_EQ((*packed)->out_features(), shape[0]);
      const auto expected_weight = reference.Pack(shape, values, with_bias ? bias : std::vector<float>());
      // Blocks of 256 and 16 rows and a rest, and rows that need only some of them.
      for (const std::int64_t rows : {1, 16, 20, 300}) {
        for (const bool accumulate : {false, true}) {
          // Rows of x and out lie 3 elements further apart than they need.
          const std::vector<float> x = Random(rows * (shape[1] + 3), 3);
          const ConstTensorView x_view =
              ConstTensorView(x.data(), DType::kF32, {rows, shape[1] + 3}).columns(0, shape[1]);
          std::vector<float> actual = Random(rows * (shape[0] + 3), 4);
          std::vector<float> expected = actual;
          const Shape out_shape = {rows, shape[0] + 3};
          ExpectOk((*packed)->Multiply(*pool, x_view,
                                       TensorView(actual.data(), DType::kF32, out_shape).columns(0, shape[0]),
                                       {0, shape[0]}, accumulate));
          ExpectOk(reference.backend().MatMul(
              reference.stream(), x_view, *expected_weight,
              TensorView(expected.data(), DType::kF32, out_shape).columns(0, shape[0]),
              {.accumulate = accumulate}));
          ExpectClose(actual, expected, 1e-5,
                      absl::StrCat(rows, " rows of ", shape.ToString(), " bias ", with_bias, " accumulate ",
                                   accumulate));
        }
      }
    }
  }
}

TEST_P(OneDnnWeightTest, ColumnsBetweenCuts) {
  if (!here_) return;
  const Shape shape = {200, 65};
  const std::vector<std::int64_t> cuts = {70, 71, 150};
  const std::vector<float> values = Random(shape.num_elements(), 1);
  const std::vector<float> bias = Random(shape[0], 2);
  const std::vector<float> x = Random(20 * shape[1], 3);
  const ConstTensorView x_view(x.data(), DType::kF32, {20, shape[1]});
  const auto pool = *ThreadPool::Create(2);
  const auto packed =
      PackOneDnnWeight(ConstTensorView(values.data(), DType::kF32, shape),
                       ConstTensorView(bias.data(), DType::kF32, {shape[0]}), cuts, GetParam(), 2);
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<float> whole(static_cast<std::size_t>(20 * shape[0]));
  ExpectOk((*packed)->Multiply(*pool, x_view, TensorView(whole.data(), DType::kF32, {20, shape[0]}),
                               {0, shape[0]}, false));
  for (const Range& columns : {Range{0, 70}, Range{70, 71}, Range{70, 150}, Range{150, 200}}) {
    const std::int64_t count = columns.end - columns.begin;
    std::vector<float> part(static_cast<std::size_t>(20 * count));
    ExpectOk((*packed)->Multiply(*pool, x_view, TensorView(part.data(), DType::kF32, {20, count}), columns,
                                 false));
    for (std::int64_t r = 0; r < 20; ++r) {
      for (std::int64_t c = 0; c < count; ++c) {
        EXPECT_EQ(part[static_cast<std::size_t>(r * count + c)],
                  whole[static_cast<std::size_t>(r * shape[0] + columns.begin + c)]);
      }
    }
  }
}

TEST_P(OneDnnWeightTest, ManyShapesDoNotPileUp) {
  if (!here_) return;
  const std::vector<std::byte> values(8 * 4 * 4);
  const auto product = OneDnnMatMul::Create(values.data(), GetParam(), 8, 4);
  ASSERT_TRUE(product.ok()) << product.status();
  std::vector<float> out(200 * 8, 1.0f);
  const std::vector<std::byte> x(200 * 4 * 4);
  for (std::int64_t rows = 1; rows <= 200; ++rows) {
    out.assign(out.size(), 1.0f);
    ExpectOk((*product)->Multiply(x.data(), rows, out.data(), 8, false));
    EXPECT_EQ(out[static_cast<std::size_t>(rows * 8 - 1)], 0.0f);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, OneDnnWeightTest, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace scd::cpu
