// What happened to one request and when: spans, moments and counts on a few tracks, for a timeline that
// Perfetto shows (docs/tracing.md).
//
// Tracing is off where a pointer to a trace is null: then a TraceSpan is two comparisons and reads no clock.
// Times come from the steady clock; the wall clock is read once, when a trace begins, so that traces of
// several processes of one machine line up.
#ifndef SCD_COMMON_TRACE_REQUEST_TRACE_H_
#define SCD_COMMON_TRACE_REQUEST_TRACE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace scd {

// A row of the timeline. Spans of one track follow each other or lie inside one another.
enum class TraceTrack : std::uint8_t {
  kRequest,   // the whole of it; tokenising, queues, the first token
  kPrefill,   // the producer's forward passes
  kEncode,    // codes of a layer of a chunk
  kSend,      // frames on their way into the connection, one at a time
  kTransfer,  // the consumer's side of a transfer; what it waits for
  kReceive,   // frames as they arrive
  kRebuild,   // codes that become K and V
  kNative,    // prompt positions that the consumer computes itself
  kDecode,    // tokens after the first
};
inline constexpr std::size_t kNumTraceTracks = 9;
std::string_view TraceTrackName(TraceTrack track);  // "request", "prefill", ...

// What an event is about; only what is set is shown. The texts live as long as the program.
struct TraceDetail {
  std::int64_t layer = -1;
  std::int64_t chunk = -1;
  std::int64_t first_token = -1;
  std::int64_t tokens = -1;
  std::int64_t bytes = -1;
  std::string_view kind = {};  // of a code
};

struct TraceEvent {
  enum class Form : std::uint8_t { kSpan, kMoment, kCount };
  using Time = std::chrono::steady_clock::time_point;

  Form form = Form::kSpan;
  TraceTrack track = TraceTrack::kRequest;
  std::string_view name;  // lives as long as the program
  Time begin;
  Time end;                // of a span
  std::int64_t count = 0;  // of a count
  TraceDetail detail;
};

// Thread-safe. Keeps at most max_events events; more are counted only.
class RequestTrace {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  static constexpr std::size_t kMaxEvents = std::size_t{1} << 16;
  static constexpr std::size_t kMaxIdBytes = 128;

  // Begins now. Of a longer id the first kMaxIdBytes are kept.
  explicit RequestTrace(std::string_view request_id, std::size_t max_events = kMaxEvents);
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;

  // Now, for a span that begins; nothing in particular where there is no trace.
  static Time TimeFor(const RequestTrace* trace) { return trace == nullptr ? Time() : Clock::now(); }

  void AddSpan(TraceTrack track, std::string_view name, Time begin, Time end, const TraceDetail& detail = {});
  void AddMoment(TraceTrack track, std::string_view name, const TraceDetail& detail = {});
  // How many of `name` there are from now on.
  void AddCount(TraceTrack track, std::string_view name, std::int64_t count);
  // The request has ended, with this outcome (a literal). Only the first call counts; events of others that
  // still work for it may follow.
  void End(std::string_view outcome);

  struct Record {
    std::vector<TraceEvent> events;  // as they were added, the whole request first
    std::string_view outcome;        // empty: End was not called
    std::size_t num_dropped = 0;
  };
  // Everything so far; without End the request lasts until now. Leaves the trace empty.
  Record Take();

  const std::string& request_id() const { return request_id_; }
  Time begin() const { return begin_; }
  // Microseconds since 1970. Rounds down, so that what lies inside another stays there.
  std::int64_t WallMicroseconds(Time time) const;

 private:
  void Add(const TraceEvent& event);

  const std::string request_id_;
  const std::size_t max_events_;
  Time begin_;
  std::chrono::nanoseconds wall_begin_{0};  // of begin_, since 1970

  absl::Mutex mutex_;
  std::vector<TraceEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::size_t num_dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Time> end_ ABSL_GUARDED_BY(mutex_);
  std::string_view outcome_ ABSL_GUARDED_BY(mutex_);
};

// A span from its making to its end. `trace` may be null, else it outlives this.
class TraceSpan {
 public:
  TraceSpan(RequestTrace* trace, TraceTrack track, std::string_view name, const TraceDetail& detail = {})
      : trace_(trace) {
    if (trace_ == nullptr) return;
    track_ = track;
    name_ = name;
    detail_ = detail;
    begin_ = RequestTrace::Clock::now();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->AddSpan(track_, name_, begin_, RequestTrace::Clock::now(), detail_);
  }

  // For what is known at the end only.
  void set_bytes(std::int64_t bytes) { detail_.bytes = bytes; }

 private:
  RequestTrace* const trace_;
  TraceTrack track_ = TraceTrack::kRequest;
  std::string_view name_;
  TraceDetail detail_;
  RequestTrace::Time begin_;
};

}  // namespace scd

#endif  // SCD_COMMON_TRACE_REQUEST_TRACE_H_
