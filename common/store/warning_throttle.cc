#include "common/store/warning_throttle.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace scd {

WarningThrottle::WarningThrottle(std::function<void(const std::string&)> warn,
                                 std::function<absl::Time()> now, absl::Duration interval)
    : warn_(std::move(warn)), now_(std::move(now)), interval_(interval) {}

void WarningThrottle::Warn(const std::string& text) {
  if (!warn_) return;
  std::int64_t kept_back = 0;
  {
    const absl::Time now = now_();
    const absl::MutexLock lock(&mutex_);
    if (now - last_ < interval_) {
      ++num_kept_back_;
      return;
    }
    last_ = now;
    kept_back = std::exchange(num_kept_back_, 0);
  }
  warn_(kept_back == 0 ? text
                       : absl::StrCat(text, " (and ", kept_back, " more such since the last warning)"));
}

}  // namespace scd
