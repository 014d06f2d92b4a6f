#include "consumer/byte_budget.h"

#include <utility>

#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(ByteBudgetTest, LeasesAreTakenAndGivenBack) {
  ByteBudget budget(100);
  {
    auto first = budget.Take(60);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(budget.Take(41).status().code(), absl::StatusCode::kResourceExhausted);
    auto second = budget.Take(40);
    ASSERT_TRUE(second.ok());
    EXPECT_FALSE(budget.Take(1).ok());
    ByteBudget::Lease moved = *std::move(second);
    EXPECT_FALSE(budget.Take(1).ok()) << "moving gives nothing back";
  }
  EXPECT_TRUE(budget.Take(100).ok());
}

TEST(ByteBudgetTest, AssigningOverALeaseGivesItBack) {
  ByteBudget budget(10);
  {
    ByteBudget::Lease lease = *budget.Take(10);
    lease = ByteBudget::Lease();
  }
  EXPECT_TRUE(budget.Take(10).ok());
}

}  // namespace
}  // namespace scd
