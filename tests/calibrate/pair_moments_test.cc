#include "calibrate/pair_moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "calibrate/host_math.h"

namespace scd {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr std::int64_t kRows = 1300;
constexpr std::int64_t kDimA = 7;
constexpr std::int64_t kDimB = 5;

struct Rows {
  std::vector<float> a;
  std::vector<float> b;

  ConstTensorView View(bool second, std::int64_t begin, std::int64_t count) const {
    const std::int64_t dim = second ? kDimB : kDimA;
    return MatrixView((second ? b : a).data() + begin * dim, count, dim);
  }
};

// Correlated rows of unit size around `offset`.
Rows MakeRows(float offset) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Rows rows;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const float common = normal(random);
    for (std::int64_t i = 0; i < kDimA; ++i) rows.a.push_back(offset + common + normal(random));
    for (std::int64_t i = 0; i < kDimB; ++i) rows.b.push_back(-offset + common - 0.5f * normal(random));
  }
  return rows;
}

// The definition, in double over all rows at once.
Moments Direct(const Rows& rows) {
  Moments m;
  m.count = kRows;
  m.mean_a.assign(kDimA, 0.0);
  m.mean_b.assign(kDimB, 0.0);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t i = 0; i < kDimA; ++i) m.mean_a[i] += rows.a[r * kDimA + i] / double{kRows};
    for (std::int64_t i = 0; i < kDimB; ++i) m.mean_b[i] += rows.b[r * kDimB + i] / double{kRows};
  }
  m.aa = Matrix(kDimA, kDimA);
  m.ab = Matrix(kDimA, kDimB);
  m.bb = Matrix(kDimB, kDimB);
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::vector<double> a(kDimA), b(kDimB);
    for (std::int64_t i = 0; i < kDimA; ++i) a[i] = rows.a[r * kDimA + i] - m.mean_a[i];
    for (std::int64_t i = 0; i < kDimB; ++i) b[i] = rows.b[r * kDimB + i] - m.mean_b[i];
    for (std::int64_t i = 0; i < kDimA; ++i) {
      for (std::int64_t j = 0; j < kDimA; ++j) m.aa(i, j) += a[i] * a[j];
      for (std::int64_t j = 0; j < kDimB; ++j) m.ab(i, j) += a[i] * b[j];
    }
    for (std::int64_t i = 0; i < kDimB; ++i) {
      for (std::int64_t j = 0; j < kDimB; ++j) m.bb(i, j) += b[i] * b[j];
    }
  }
  return m;
}

void ExpectNear(const Moments& got, const Moments& want, double tolerance) {
  EXPECT_EQ(got.count, want.count);
  EXPECT_THAT(got.mean_a, Pointwise(DoubleNear(1e-5), want.mean_a));
  EXPECT_THAT(got.mean_b, Pointwise(DoubleNear(1e-5), want.mean_b));
  EXPECT_THAT(got.aa.values, Pointwise(DoubleNear(tolerance * kRows), want.aa.values));
  EXPECT_THAT(got.ab.values, Pointwise(DoubleNear(tolerance * kRows), want.ab.values));
  EXPECT_THAT(got.bb.values, Pointwise(DoubleNear(tolerance * kRows), want.bb.values));
}

class PairMomentsTest : public ::testing::Test {
 protected:
  void SetUp() override { math_ = HostMath::Create(1).value(); }

  void Add(PairMoments& moments, const Rows& rows, std::int64_t begin, std::int64_t count) {
    ASSERT_TRUE(moments.Add(*math_, rows.View(false, begin, count), rows.View(true, begin, count)).ok());
  }

  std::unique_ptr<HostMath> math_;
};

TEST_F(PairMomentsTest, StreamingInUnevenPiecesEqualsTheDefinition) {
  const Rows rows = MakeRows(0.0f);
  PairMoments moments(kDimA, kDimB, true);
  std::int64_t begin = 0;
  for (const std::int64_t count : {1, 30, 512, 600, 157}) {
    Add(moments, rows, begin, count);
    begin += count;
  }
  ASSERT_EQ(begin, kRows);
  ExpectNear(moments.Finish().value(), Direct(rows), 1e-6);
}

TEST_F(PairMomentsTest, AnOffsetAThousandTimesTheSpreadCostsNoDigits) {
  const Rows rows = MakeRows(1000.0f);
  PairMoments moments(kDimA, kDimB, true);
  for (std::int64_t begin = 0; begin < kRows; begin += 130) Add(moments, rows, begin, 130);
  ExpectNear(moments.Finish().value(), Direct(rows), 1e-5);
}

TEST_F(PairMomentsTest, GoingOnFromASavedStateGivesTheSameBits) {
  const Rows rows = MakeRows(2.0f);
  PairMoments whole(kDimA, kDimB, true);
  PairMoments first(kDimA, kDimB, true);
  for (PairMoments* m : {&whole, &first}) Add(*m, rows, 0, 700);
  std::vector<double> state(static_cast<std::size_t>(first.num_state_values()));
  ASSERT_TRUE(first.SaveState(absl::MakeSpan(state)).ok());
  PairMoments second(kDimA, kDimB, true);
  second.LoadState(state);
  for (PairMoments* m : {&whole, &second}) Add(*m, rows, 700, 600);
  const Moments want = whole.Finish().value();
  const Moments got = second.Finish().value();
  EXPECT_EQ(got.aa.values, want.aa.values);
  EXPECT_EQ(got.ab.values, want.ab.values);
  EXPECT_EQ(got.bb.values, want.bb.values);
  EXPECT_EQ(got.mean_a, want.mean_a);
}

TEST_F(PairMomentsTest, WithoutRowsOrWithOtherShapesItSaysSo) {
  PairMoments moments(kDimA, kDimB, false);
  EXPECT_EQ(moments.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
  const Rows rows = MakeRows(0.0f);
  const absl::Status status = moments.Add(*math_, rows.View(false, 0, 4), rows.View(true, 0, 3));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("[3, 5]"));
}

}  // namespace
}  // namespace scd
