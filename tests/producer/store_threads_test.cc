#include "producer/store_threads.h"

#include <atomic>
#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

TEST(StoreThreadsTest, AsManyRunAsThereAreThreadsAndAFewWait) {
  std::atomic<int> num_run = 0;
  absl::Notification go;
  {
    StoreThreads threads(2, 3);
    absl::Notification started[2];
    for (absl::Notification& note : started) {
      ASSERT_TRUE(threads.Run([&] {
        note.Notify();
        go.WaitForNotification();
        ++num_run;
      }));
    }
    for (absl::Notification& note : started) note.WaitForNotification();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(threads.Run([&] { ++num_run; }));
    EXPECT_FALSE(threads.Run([&] { ++num_run; }));
    EXPECT_EQ(num_run, 0);
    go.Notify();
    absl::Notification last;
    while (!threads.Run([&] { last.Notify(); })) {
    }
    last.WaitForNotification();
  }
  EXPECT_EQ(num_run, 5);
}

TEST(StoreThreadsTest, WithoutThreadsNothingIsTaken) {
  StoreThreads threads(0, 3);
  EXPECT_FALSE(threads.Run([] {}));
}

TEST(StoreThreadsTest, WhatWaitsAtTheEndIsLetGo) {
  const auto held = std::make_shared<int>(0);
  absl::Notification started;
  absl::Notification go;
  auto threads = std::make_unique<StoreThreads>(1, 3);
  ASSERT_TRUE(threads->Run([&] {
    started.Notify();
    go.WaitForNotification();
  }));
  started.WaitForNotification();
  ASSERT_TRUE(threads->Run([held] { ++*held; }));
  std::jthread end([&] { threads.reset(); });
  while (held.use_count() > 1) {
  }
  go.Notify();
  end.join();
  EXPECT_EQ(*held, 0);
}

}  // namespace
}  // namespace scd
