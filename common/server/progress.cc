#include "common/server/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace scd {
namespace {

constexpr int kBarCells = 30;

double Seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

Progress::Progress(Log& log, const ProgressStyle& style, std::string stage, std::string unit,
                   std::int64_t total, std::int64_t done)
    : log_(log),
      style_(style),
      stage_(std::move(stage)),
      unit_(std::move(unit)),
      total_(total),
      done_before_(done),
      start_(Clock::now()),
      done_(done),
      last_shown_(start_) {}

Progress::~Progress() {
  absl::MutexLock lock(&mutex_);
  if (shown_ && style_.terminal) std::fputc('\n', stderr);
}

void Progress::Set(std::int64_t done) {
  absl::MutexLock lock(&mutex_);
  done_ = done;
  Show();
}

void Progress::Add(std::int64_t units) {
  absl::MutexLock lock(&mutex_);
  done_ += units;
  Show();
}

void Progress::Show() {
  const Clock::time_point now = Clock::now();
  const double interval = !shown_           ? style_.first_after_s
                          : style_.terminal ? style_.terminal_interval_s
                                            : style_.log_interval_s;
  if (Seconds(now - last_shown_) < interval) return;
  last_shown_ = now;
  shown_ = true;
  const double made = static_cast<double>(done_ - done_before_);
  const double left = made > 0 ? Seconds(now - start_) / made * static_cast<double>(total_ - done_) : -1.0;
  const std::string text = Text(stage_, unit_, done_, total_, left);
  if (!style_.terminal) {
    log_.Info(text);
    return;
  }
  const int cells = total_ > 0 ? static_cast<int>(kBarCells * std::min(done_, total_) / total_) : 0;
  const std::string bar = std::string(static_cast<std::size_t>(cells), '#') +
                          std::string(static_cast<std::size_t>(kBarCells - cells), '.');
  std::fputs(absl::StrFormat("\r[%s] %s\x1b[K", bar, text).c_str(), stderr);
  std::fflush(stderr);
}

std::string Progress::Text(const std::string& stage, const std::string& unit, std::int64_t done,
                           std::int64_t total, double seconds_left) {
  std::string text = absl::StrCat(stage, ": ", done, " of ", total, " ", unit);
  if (seconds_left >= 0) absl::StrAppend(&text, ", ", Duration(seconds_left), " left");
  return text;
}

std::string Progress::Duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrCat(whole / 60, " min ", whole % 60, " s");
  return absl::StrCat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

}  // namespace scd
