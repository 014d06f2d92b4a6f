#include "consumer/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SchedulerTest, DecodesEverybodyWhereTheyFit) {
  Scheduler scheduler(4, 10);
  EXPECT_THAT(scheduler.NextDecodeBatch({}), IsEmpty());
  EXPECT_THAT(scheduler.NextDecodeBatch({2, 5, 9}), ElementsAre(2, 5, 9));
}

TEST(SchedulerTest, TooManyDecodersTakeTurns) {
  Scheduler scheduler(2, 10);
  EXPECT_THAT(scheduler.NextDecodeBatch({1, 2, 3, 4, 5}), ElementsAre(1, 2));
  EXPECT_THAT(scheduler.NextDecodeBatch({1, 2, 3, 4, 5}), ElementsAre(3, 4));
  EXPECT_THAT(scheduler.NextDecodeBatch({1, 2, 3, 4, 5}), ElementsAre(5, 1));
  EXPECT_THAT(scheduler.NextDecodeBatch({3, 4, 5}), ElementsAre(3, 4));
}

TEST(SchedulerTest, NativeRowsOfOneStepAreBounded) {
  Scheduler scheduler(4, 10);
  EXPECT_THAT(scheduler.NextNative({}), IsEmpty());
  EXPECT_THAT(scheduler.NextNative({{1, 25}}), ElementsAre(NativeRows{1, 10}));
  EXPECT_THAT(scheduler.NextNative({{1, 6}, {2, 7}}), ElementsAre(NativeRows{1, 6}, NativeRows{2, 4}));
}

TEST(SchedulerTest, ShortPartsPassLongOnesInEveryOtherStep) {
  Scheduler scheduler(4, 10);
  const std::vector<NativeRows> waiting = {{1, 500}, {2, 3}, {3, 1}};
  int served_oldest = 0;
  int served_short = 0;
  for (int step = 0; step < 4; ++step) {
    const auto turns = scheduler.NextNative(waiting);
    if (turns.front() == NativeRows{1, 10}) ++served_oldest;
    if (turns == std::vector<NativeRows>{{3, 1}, {2, 3}, {1, 6}}) ++served_short;
  }
  EXPECT_EQ(served_oldest, 2);
  EXPECT_EQ(served_short, 2);
}

}  // namespace
}  // namespace scd
