#include "common/server/request_tracker.h"

#include <thread>

#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(RequestTrackerTest, CountsLeases) {
  RequestTracker tracker;
  auto first = tracker.Admit();
  auto second = tracker.Admit();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(tracker.num_in_flight(), 2);
  RequestTracker::Lease moved = *std::move(first);
  EXPECT_EQ(tracker.num_in_flight(), 2);
  moved.Release();
  moved.Release();
  EXPECT_EQ(tracker.num_in_flight(), 1);
  moved = *std::move(second);
  EXPECT_EQ(tracker.num_in_flight(), 1);
  moved = RequestTracker::Lease();
  EXPECT_EQ(tracker.num_in_flight(), 0);
}

TEST(RequestTrackerTest, DrainingRefusesAndWaits) {
  RequestTracker tracker;
  auto lease = tracker.Admit();
  tracker.StartDraining();
  EXPECT_EQ(tracker.Admit().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(tracker.WaitIdle(absl::Milliseconds(1)));
  std::jthread releaser([&lease] { lease->Release(); });
  EXPECT_TRUE(tracker.WaitIdle(absl::InfiniteDuration()));
}

TEST(RequestTrackerTest, WaitingCanBeStopped) {
  RequestTracker tracker;
  const auto lease = tracker.Admit();
  std::stop_source stop;
  std::jthread stopper([&stop] { stop.request_stop(); });
  EXPECT_FALSE(tracker.WaitIdle(absl::InfiniteDuration(), stop.get_token()));
}

}  // namespace
}  // namespace scd
