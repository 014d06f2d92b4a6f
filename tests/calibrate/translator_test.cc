#include "calibrate/translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "calibrate/parallel.h"

namespace scd {
namespace {

LinearFit MakeFit() {
  LinearFit fit;
  fit.mean_a = {1.0, -2.0, 3.0};
  fit.mean_b = {10.0, 20.0};
  fit.encoder = Matrix(3, 2);
  fit.encoder.values = {1, 2, 3, 4, 5, 6};
  fit.decoder = Matrix(2, 2);
  fit.decoder.values = {0.5, -1, 2, 4};
  return fit;
}

TEST(TranslatorTest, EncodesAndDecodesAsTheFitDoesAtEveryRank) {
  const auto math = HostMath::Create(1).value();
  const AffineTranslator t = MakeTranslator(MakeFit());
  const std::vector<float> a = {2, 0, 3, 1, -2, 4};  // centred: (1, 2, 0), (0, 0, 1)
  for (const std::int64_t rank : {1, 2}) {
    std::vector<float> z(static_cast<std::size_t>(2 * rank)), b(4);
    ASSERT_TRUE(EncodeRows(*math, t, rank, MatrixView(a.data(), 2, 3), MatrixView(z.data(), 2, rank)).ok());
    ASSERT_TRUE(DecodeRows(*math, t, rank, MatrixView(z.data(), 2, rank), MatrixView(b.data(), 2, 2)).ok());
    const double z_expected[2][2] = {{7, 10}, {5, 6}};
    for (std::int64_t r = 0; r < 2; ++r) {
      double b0 = 10, b1 = 20;
      for (std::int64_t c = 0; c < rank; ++c) {
        EXPECT_NEAR(z[static_cast<std::size_t>(r * rank + c)], z_expected[r][c], 1e-5);
        b0 += z_expected[r][c] * MakeFit().decoder(c, 0);
        b1 += z_expected[r][c] * MakeFit().decoder(c, 1);
      }
      EXPECT_NEAR(b[static_cast<std::size_t>(2 * r)], b0, 1e-4);
      EXPECT_NEAR(b[static_cast<std::size_t>(2 * r + 1)], b1, 1e-4);
    }
  }
}

TEST(RelativeErrorTest, IsTheRatioOfNormsOverAllRows) {
  RelativeError error;
  EXPECT_EQ(error.value(), 0.0);
  const std::vector<float> predicted = {1, 2}, actual = {4, 6}, mean = {0, 1};
  error.Add(MatrixView(predicted.data(), 1, 2), MatrixView(actual.data(), 1, 2), mean);
  EXPECT_NEAR(error.value(), std::sqrt((9.0 + 16.0) / (16.0 + 25.0)), 1e-12);
  error.Add(MatrixView(actual.data(), 1, 2), MatrixView(actual.data(), 1, 2), mean);
  EXPECT_NEAR(error.value(), std::sqrt((9.0 + 16.0) / (2 * (16.0 + 25.0))), 1e-12);
}

TEST(WorkerPoolTest, EveryJobRunsOnceAndTheLowestErrorIsGiven) {
  const auto pool = WorkerPool::Create(3, 8).value();
  EXPECT_EQ(pool->num_workers(), 3);
  absl::Mutex mutex;
  std::multiset<std::int64_t> seen;
  ASSERT_TRUE(pool->Run(50,
                        [&](HostMath&, std::int64_t i) {
                          absl::MutexLock lock(&mutex);
                          seen.insert(i);
                          return absl::OkStatus();
                        })
                  .ok());
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 50u);

  std::atomic<int> ran = 0;
  const absl::Status status = pool->Run(1000, [&](HostMath&, std::int64_t i) -> absl::Status {
    ++ran;
    return i == 0 ? absl::InternalError("job 0") : absl::OkStatus();
  });
  EXPECT_EQ(status.message(), "job 0");
  EXPECT_LT(ran, 1000);
  EXPECT_EQ(WorkerPool::Create(4, 2).value()->num_workers(), 2);
}

}  // namespace
}  // namespace scd
