// The folder that a daemon writes traces of its requests into, one file each, on a thread of its own.
//
// Tracing never fails a request and never fills a disk: what cannot be written is counted, and logged the
// first time; beyond max_files the oldest files of this side are removed; while kMaxUnwritten traces are
// unwritten, further requests have none.
#ifndef SCD_COMMON_TRACE_TRACE_FOLDER_H_
#define SCD_COMMON_TRACE_TRACE_FOLDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/trace/request_trace.h"
#include "common/trace/trace_json.h"

namespace scd {

struct TraceOptions {
  std::string dir;               // empty: off
  std::int64_t max_files = 100;  // of one daemon that are kept
};

// OK where traces can be written into the folder, else what is wrong with it, as "trace.dir: <path>: ...".
// Leaves nothing there.
absl::Status CheckTraceFolder(const std::string& dir);

class TraceFolder {
 public:
  // In flight or in the queue of the writer.
  static constexpr std::int64_t kMaxUnwritten = 64;

  // options.dir is not empty; checks it. `log_failure` hears of the first failure, from the writer's thread.
  static absl::StatusOr<std::unique_ptr<TraceFolder>> Create(
      const TraceOptions& options, TraceOrigin origin, std::function<void(const std::string&)> log_failure);
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  // No trace is left. Writes what is waiting.
  ~TraceFolder();

  // A trace that is written when its last owner lets go of it; null where there are too many. Any thread.
  std::shared_ptr<RequestTrace> Begin(std::string_view request_id);

  struct Stats {
    std::int64_t written = 0;
    std::int64_t lost = 0;  // could not be written, or never began because there were too many
  };
  Stats stats() const;

 private:
  TraceFolder(const TraceOptions& options, TraceOrigin origin,
              std::function<void(const std::string&)> log_failure);

  void Ended(std::unique_ptr<RequestTrace> trace);
  void Run();
  void Write(std::unique_ptr<RequestTrace> trace);
  // Writes a new file and returns its name.
  absl::StatusOr<std::string> WriteFile(const std::string& request_id, std::string_view json);
  // Files of earlier runs, oldest first, and the next sequence.
  void FindFiles();
  void RemoveOldest();

  const TraceOptions options_;
  const TraceOrigin origin_;
  const std::function<void(const std::string&)> log_failure_;

  // Of the writer's thread.
  std::deque<std::string> files_;  // names, oldest first
  std::int64_t next_sequence_ = 1;
  bool logged_ = false;

  mutable absl::Mutex mutex_;
  std::deque<std::unique_ptr<RequestTrace>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::int64_t unwritten_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Stats stats_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

// For requests of a daemon that may have no folder.
inline std::shared_ptr<RequestTrace> BeginTrace(TraceFolder* folder, std::string_view request_id) {
  return folder == nullptr ? nullptr : folder->Begin(request_id);
}

}  // namespace scd

#endif  // SCD_COMMON_TRACE_TRACE_FOLDER_H_
