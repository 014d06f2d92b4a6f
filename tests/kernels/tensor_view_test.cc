#include "kernels/tensor_view.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(ShapeTest, CountsComparesAndPrints) {
  const Shape shape = {2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape.num_elements(), 24);
  EXPECT_EQ(shape.ToString(), "[2, 3, 4]");
  EXPECT_TRUE(shape == (Shape{2, 3, 4}));
  EXPECT_FALSE(shape == (Shape{2, 3}));
  EXPECT_FALSE(shape == (Shape{2, 3, 5}));
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(TensorViewTest, RowsAndColumnsOfAMatrix) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const TensorView matrix(values.data(), DType::kF32, {4, 6});
  EXPECT_TRUE(matrix.contiguous());
  const TensorView rows = matrix.rows(1, 2);
  EXPECT_TRUE(rows.contiguous());
  EXPECT_EQ(rows.row<float>(1)[5], 17.0f);
  const ConstTensorView columns = matrix.columns(2, 3);
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.dim(1), 3);
  EXPECT_EQ(columns.row<float>(3)[0], 20.0f);
  EXPECT_EQ(columns.rows(2, 1).row<float>(0)[2], 16.0f);
}

TEST(TensorViewTest, SplittingTheLastDimensionKeepsTheDistanceOfRows) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const TensorView heads = TensorView(values.data(), DType::kF32, {4, 6}).columns(2, 4).Reshaped({4, 2, 2});
  EXPECT_EQ(heads.stride(0), 6);
  EXPECT_EQ(heads.row<float>(3)[3], 23.0f);
}

TEST(TensorViewTest, SlicesOfHalfTypesMoveByTheirOwnSize) {
  std::vector<std::uint16_t> values = {0, 1, 2, 3, 4, 5};
  const TensorView matrix(values.data(), DType::kBF16, {2, 3});
  EXPECT_EQ(matrix.columns(1, 2).row<std::uint16_t>(1)[0], 4);
}

TEST(TensorViewTest, NothingIsEmpty) {
  EXPECT_TRUE(ConstTensorView().empty());
  EXPECT_EQ(ConstTensorView().rank(), 0);
}

}  // namespace
}  // namespace scd
