#include "common/trace/request_trace.h"

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

using std::chrono::milliseconds;

TEST(RequestTraceTest, TheRequestComesFirstAndHoldsWhatHappened) {
  RequestTrace trace("r");
  { const TraceSpan span(&trace, TraceTrack::kEncode, "encode", {.layer = 3, .kind = "k"}); }
  trace.AddMoment(TraceTrack::kRequest, "first token");
  trace.AddCount(TraceTrack::kSend, "frames waiting", 7);
  trace.End("ok");
  const RequestTrace::Record record = trace.Take();
  ASSERT_EQ(record.events.size(), 4u);
  EXPECT_EQ(record.outcome, "ok");
  EXPECT_EQ(record.num_dropped, 0u);
  const TraceEvent& whole = record.events[0];
  EXPECT_EQ(whole.name, "request");
  EXPECT_EQ(record.events[1].name, "encode");
  EXPECT_EQ(record.events[1].track, TraceTrack::kEncode);
  EXPECT_EQ(record.events[1].detail.layer, 3);
  EXPECT_EQ(record.events[1].detail.kind, "k");
  EXPECT_EQ(record.events[2].form, TraceEvent::Form::kMoment);
  EXPECT_EQ(record.events[3].form, TraceEvent::Form::kCount);
  EXPECT_EQ(record.events[3].count, 7);
  for (const TraceEvent& event : record.events) {
    EXPECT_LE(whole.begin, event.begin) << event.name;
    EXPECT_LE(event.begin, event.end) << event.name;
    EXPECT_LE(event.end, whole.end) << event.name;
  }
}

TEST(RequestTraceTest, OnlyTheFirstEndCounts) {
  RequestTrace trace("r");
  trace.End("ok");
  std::this_thread::sleep_for(milliseconds(5));
  trace.End("cancelled");
  const auto now = RequestTrace::Clock::now();
  const RequestTrace::Record record = trace.Take();
  EXPECT_EQ(record.outcome, "ok");
  EXPECT_LT(record.events[0].end, now - milliseconds(4));
}

TEST(RequestTraceTest, WithoutAnEndItLastsUntilItIsTaken) {
  RequestTrace trace("r");
  const auto before = RequestTrace::Clock::now();
  const RequestTrace::Record record = trace.Take();
  EXPECT_EQ(record.outcome, "");
  EXPECT_GE(record.events[0].end, before);
}

TEST(RequestTraceTest, KeepsNoMoreThanItsBoundAndCountsTheRest) {
  RequestTrace trace("r", 10);
  for (int i = 0; i < 25; ++i) trace.AddMoment(TraceTrack::kSend, "m");
  const RequestTrace::Record record = trace.Take();
  EXPECT_EQ(record.events.size(), 11u);
  EXPECT_EQ(record.num_dropped, 15u);
}

TEST(RequestTraceTest, ThreadsMayAddTogether) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  RequestTrace trace("r");
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&trace, t] {
        for (int i = 0; i < kEach; ++i) {
          const TraceSpan span(&trace, TraceTrack::kRebuild, "rebuild", {.layer = t, .first_token = i});
        }
      });
    }
  }
  const RequestTrace::Record record = trace.Take();
  ASSERT_EQ(record.events.size(), 1u + kThreads * kEach);
  std::vector<std::int64_t> next(kThreads, 0);
  for (std::size_t i = 1; i < record.events.size(); ++i) {
    const TraceDetail& detail = record.events[i].detail;
    EXPECT_EQ(detail.first_token, next.at(static_cast<std::size_t>(detail.layer))++);
  }
}

TEST(RequestTraceTest, ASpanThatEndsBeforeItBeginsLastsNothing) {
  RequestTrace trace("r");
  const auto now = RequestTrace::Clock::now();
  trace.AddSpan(TraceTrack::kNative, "n", now, now - milliseconds(3));
  const RequestTrace::Record record = trace.Take();
  EXPECT_EQ(record.events.at(1).begin, record.events.at(1).end);
}

TEST(RequestTraceTest, TimesAreThoseOfTheWallClock) {
  const RequestTrace trace("r");
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto steady = RequestTrace::Clock::now();
  const auto expected = std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
  EXPECT_NEAR(static_cast<double>(trace.WallMicroseconds(steady)), static_cast<double>(expected), 50'000);
  // Rounded down on both sides of a microsecond, before the trace's begin too.
  for (int ns = -1500; ns <= 1500; ns += 100) {
    const auto time = trace.begin() + std::chrono::nanoseconds(ns);
    EXPECT_LE(trace.WallMicroseconds(time), trace.WallMicroseconds(time + std::chrono::nanoseconds(100)));
  }
}

TEST(RequestTraceTest, ALongIdIsCut) {
  const RequestTrace trace(std::string(100'000, 'x'));
  EXPECT_EQ(trace.request_id(), std::string(RequestTrace::kMaxIdBytes, 'x'));
}

TEST(TraceSpanTest, WithoutATraceNothingHappens) {
  std::optional<TraceSpan> span;
  span.emplace(nullptr, TraceTrack::kSend, "send", TraceDetail{.bytes = 3});
  span->set_bytes(4);
  span.reset();
}

TEST(TraceSpanTest, BytesMayBeKnownAtTheEndOnly) {
  RequestTrace trace("r");
  {
    TraceSpan span(&trace, TraceTrack::kEncode, "encode");
    span.set_bytes(9);
  }
  EXPECT_EQ(trace.Take().events.at(1).detail.bytes, 9);
}

}  // namespace
}  // namespace scd
