#include "common/trace/trace_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/trace/trace_file_name.h"

namespace scd {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const std::string& path, std::string_view what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", std::string(what)));
}

// A file that was not there before; UNIX error in `error` where it could not be made.
int CreateFile(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

// 0 or the error.
int WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

absl::Status CheckTraceFolder(const std::string& dir) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) {
    return absl::NotFoundError(
        absl::StrCat("trace.dir: ", dir, ": ", error ? error.message() : "is not a folder"));
  }
  const std::string probe = absl::StrCat(dir, "/.scd-trace-check.", ::getpid());
  const int file = CreateFile(probe);
  if (file < 0) return Failed(absl::StrCat("trace.dir: ", dir), "nothing can be written there", errno);
  ::close(file);
  ::unlink(probe.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TraceFolder>> TraceFolder::Create(
    const TraceOptions& options, TraceOrigin origin, std::function<void(const std::string&)> log_failure) {
  if (const absl::Status status = CheckTraceFolder(options.dir); !status.ok()) return status;
  return std::unique_ptr<TraceFolder>(new TraceFolder(options, std::move(origin), std::move(log_failure)));
}

TraceFolder::TraceFolder(const TraceOptions& options, TraceOrigin origin,
                         std::function<void(const std::string&)> log_failure)
    : options_(options),
      origin_(std::move(origin)),
      log_failure_(std::move(log_failure)),
      thread_([this] { Run(); }) {}

TraceFolder::~TraceFolder() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

std::shared_ptr<RequestTrace> TraceFolder::Begin(std::string_view request_id) {
  {
    const absl::MutexLock lock(&mutex_);
    if (unwritten_ >= kMaxUnwritten) {
      ++stats_.lost;
      return nullptr;
    }
    ++unwritten_;
  }
  return {new RequestTrace(request_id),
          [this](RequestTrace* trace) { Ended(std::unique_ptr<RequestTrace>(trace)); }};
}

TraceFolder::Stats TraceFolder::stats() const {
  const absl::MutexLock lock(&mutex_);
  return stats_;
}

void TraceFolder::Ended(std::unique_ptr<RequestTrace> trace) {
  trace->End("");
  const absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(trace));
}

void TraceFolder::Run() {
  FindFiles();
  const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); };
  for (;;) {
    std::unique_ptr<RequestTrace> trace;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (waiting_.empty()) return;
      trace = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Write(std::move(trace));
  }
}

void TraceFolder::Write(std::unique_ptr<RequestTrace> trace) {
  absl::StatusOr<std::string> name = WriteFile(trace->request_id(), TraceToJson(*trace, origin_));
  trace.reset();
  if (name.ok()) {
    files_.push_back(*std::move(name));
    RemoveOldest();
  } else if (!std::exchange(logged_, true)) {
    log_failure_(absl::StrCat("traces cannot be written (said once; scd_traces_lost_total counts): ",
                              name.status().message()));
  }
  const absl::MutexLock lock(&mutex_);
  --unwritten_;
  ++(name.ok() ? stats_.written : stats_.lost);
}

absl::StatusOr<std::string> TraceFolder::WriteFile(const std::string& request_id, std::string_view json) {
  // Others may write into the folder too: a name that is taken is left to them.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = TraceFileName(request_id, origin_.side, next_sequence_++);
    const std::string path = absl::StrCat(options_.dir, "/", name);
    const std::string part = absl::StrCat(path, std::string(kPartSuffix));
    const int file = CreateFile(part);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) return Failed(part, "cannot be made", errno);
    // Who has the part has the name.
    const bool taken = ::access(path.c_str(), F_OK) == 0;
    int error = taken ? EEXIST : WriteAll(file, json);
    if (::close(file) != 0 && error == 0) error = errno;
    if (error == 0 && ::rename(part.c_str(), path.c_str()) != 0) error = errno;
    if (error == 0) return name;
    ::unlink(part.c_str());
    if (!taken) return Failed(part, "cannot be written", error);
  }
  return absl::AlreadyExistsError(absl::StrCat(options_.dir, ": every name is taken"));
}

void TraceFolder::FindFiles() {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(options_.dir, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (const std::optional<std::int64_t> sequence = SequenceOfTraceFile(name, origin_.side)) {
      found.emplace_back(*sequence, std::move(name));
    }
  }
  std::sort(found.begin(), found.end());
  for (auto& [sequence, name] : found) files_.push_back(std::move(name));
  // A file with the largest number there is must not make the next one negative.
  constexpr std::int64_t kLargest = std::int64_t{1} << 53;
  if (!found.empty()) next_sequence_ = std::min(found.back().first, kLargest) + 1;
  RemoveOldest();
}

void TraceFolder::RemoveOldest() {
  while (static_cast<std::int64_t>(files_.size()) > options_.max_files) {
    ::unlink(absl::StrCat(options_.dir, "/", files_.front()).c_str());
    files_.pop_front();
  }
}

}  // namespace scd
