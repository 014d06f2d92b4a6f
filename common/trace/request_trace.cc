#include "common/trace/request_trace.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace scd {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, kNumTraceTracks> kTrackNames = {
    "request", "prefill", "encode", "send", "transfer", "receive", "rebuild", "native", "decode"};

// Both clocks at one moment: of a few readings that between which the least time passed.
std::pair<RequestTrace::Time, nanoseconds> ReadBothClocks() {
  using Clock = RequestTrace::Clock;
  constexpr int kReadings = 4;
  std::pair<RequestTrace::Time, nanoseconds> best;
  nanoseconds narrowest = nanoseconds::max();
  for (int i = 0; i < kReadings; ++i) {
    const Clock::time_point before = Clock::now();
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const nanoseconds width = Clock::now() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = {before + width / 2, std::chrono::duration_cast<nanoseconds>(wall)};
  }
  return best;
}

}  // namespace

std::string_view TraceTrackName(TraceTrack track) {
  return kTrackNames.at(static_cast<std::size_t>(track));
}

RequestTrace::RequestTrace(std::string_view request_id, std::size_t max_events)
    : request_id_(request_id.substr(0, kMaxIdBytes)), max_events_(max_events) {
  std::tie(begin_, wall_begin_) = ReadBothClocks();
}

void RequestTrace::AddSpan(TraceTrack track, std::string_view name, Time begin, Time end,
                           const TraceDetail& detail) {
  Add({.form = TraceEvent::Form::kSpan,
       .track = track,
       .name = name,
       .begin = begin,
       .end = std::max(begin, end),
       .detail = detail});
}

void RequestTrace::AddMoment(TraceTrack track, std::string_view name, const TraceDetail& detail) {
  const Time now = Clock::now();
  Add({.form = TraceEvent::Form::kMoment,
       .track = track,
       .name = name,
       .begin = now,
       .end = now,
       .detail = detail});
}

void RequestTrace::AddCount(TraceTrack track, std::string_view name, std::int64_t count) {
  const Time now = Clock::now();
  Add({.form = TraceEvent::Form::kCount,
       .track = track,
       .name = name,
       .begin = now,
       .end = now,
       .count = count,
       .detail = {}});
}

void RequestTrace::Add(const TraceEvent& event) {
  const absl::MutexLock lock(&mutex_);
  if (events_.size() < max_events_) {
    events_.push_back(event);
  } else {
    ++num_dropped_;
  }
}

void RequestTrace::End(std::string_view outcome) {
  const Time now = Clock::now();
  const absl::MutexLock lock(&mutex_);
  if (end_) return;
  end_ = now;
  outcome_ = outcome;
}

RequestTrace::Record RequestTrace::Take() {
  const Time now = Clock::now();
  const absl::MutexLock lock(&mutex_);
  Record record;
  record.events.reserve(events_.size() + 1);
  record.events.push_back({.form = TraceEvent::Form::kSpan,
                           .track = TraceTrack::kRequest,
                           .name = "request",
                           .begin = begin_,
                           .end = end_.value_or(now),
                           .detail = {}});
  record.events.insert(record.events.end(), events_.begin(), events_.end());
  record.outcome = outcome_;
  record.num_dropped = std::exchange(num_dropped_, 0);
  events_.clear();
  return record;
}

std::int64_t RequestTrace::WallMicroseconds(Time time) const {
  const nanoseconds wall = wall_begin_ + (time - begin_);
  return std::chrono::floor<std::chrono::microseconds>(wall).count();
}

}  // namespace scd
