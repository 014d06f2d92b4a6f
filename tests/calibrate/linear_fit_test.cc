#include "calibrate/linear_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibrate/host_math.h"
#include "common/io/json.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

Matrix ToMatrix(const nlohmann::json& rows) {
  Matrix out(static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size()));
  out.values.clear();
  for (const auto& row : rows) {
    for (const auto& value : row) out.values.push_back(value.get<double>());
  }
  return out;
}

std::vector<float> ToFloats(const Matrix& m) {
  return {m.values.begin(), m.values.end()};
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t j = 0; j < b.columns; ++j) out(i, j) += a(i, k) * b(k, j);
    }
  }
  return out;
}

// Expected values were made with numpy by make_closed_forms.py.
class LinearFitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    expected_ = ParseJsonFile(testing::TestDataPath("closed_forms.json")).value();
    lambda_ = expected_["ridge_lambda"].get<double>();
    const Matrix a = ToMatrix(expected_["a"]);
    const Matrix b = ToMatrix(expected_["b"]);
    const std::vector<float> rows_a = ToFloats(a);
    const std::vector<float> rows_b = ToFloats(b);
    PairMoments moments(a.columns, b.columns, true);
    const auto math = HostMath::Create(1).value();
    ASSERT_TRUE(moments
                    .Add(*math, MatrixView(rows_a.data(), a.rows, a.columns),
                         MatrixView(rows_b.data(), b.rows, b.columns))
                    .ok());
    moments_ = moments.Finish().value();
  }

  void ExpectMap(const LinearFit& fit, const std::string& name) {
    EXPECT_THAT(Product(fit.encoder, fit.decoder).values,
                Pointwise(DoubleNear(2e-5), ToMatrix(expected_[name]).values))
        << name;
  }

  nlohmann::json expected_;
  double lambda_ = 0;
  Moments moments_;
};

TEST_F(LinearFitTest, JointFitEqualsNumpy) {
  for (const int rank : {1, 3, 5}) {
    ExpectMap(FitJoint(moments_, rank, lambda_).value(), absl::StrCat("joint_", rank));
  }
}

TEST_F(LinearFitTest, ReducedRankFitEqualsNumpy) {
  for (const int rank : {1, 3, 5}) {
    ExpectMap(FitReducedRank(moments_, rank, lambda_).value(), absl::StrCat("reduced_rank_", rank));
  }
}

TEST_F(LinearFitTest, MeansAreThoseOfTheRows) {
  const LinearFit fit = FitJoint(moments_, 2, lambda_).value();
  EXPECT_THAT(fit.mean_a, Pointwise(DoubleNear(1e-6), expected_["mean_a"].get<std::vector<double>>()));
  EXPECT_THAT(fit.mean_b, Pointwise(DoubleNear(1e-6), expected_["mean_b"].get<std::vector<double>>()));
}

TEST_F(LinearFitTest, ALowerRankIsTheFirstColumnsOfAHigherOne) {
  for (auto* fit : {&FitJoint, &FitReducedRank}) {
    const LinearFit full = (*fit)(moments_, 5, lambda_).value();
    const LinearFit low = (*fit)(moments_, 2, lambda_).value();
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t i = 0; i < full.encoder.rows; ++i)
        EXPECT_NEAR(low.encoder(i, c), full.encoder(i, c), 1e-12);
      for (std::int64_t j = 0; j < full.decoder.columns; ++j)
        EXPECT_NEAR(low.decoder(c, j), full.decoder(c, j), 1e-12);
    }
  }
}

TEST_F(LinearFitTest, RanksOutOfRangeAreRefused) {
  EXPECT_EQ(FitJoint(moments_, 0, lambda_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FitJoint(moments_, 12, lambda_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FitReducedRank(moments_, 6, lambda_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LinearFitTest, RowsThatNeverVaryGiveTheMean) {
  std::fill(moments_.aa.values.begin(), moments_.aa.values.end(), 0.0);
  std::fill(moments_.ab.values.begin(), moments_.ab.values.end(), 0.0);
  const LinearFit fit = FitJoint(moments_, 2, lambda_).value();
  EXPECT_THAT(fit.encoder.values, ::testing::Each(0.0));
}

TEST_F(LinearFitTest, ValuesThatAreNotFiniteAreRefused) {
  moments_.aa(1, 1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FitJoint(moments_, 2, lambda_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FitReducedRank(moments_, 2, lambda_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace scd
