#include "client/bench/distribution.h"

#include <algorithm>
#include <numeric>

namespace scd {

void Distribution::Add(double value) {
  sorted_ = sorted_ && (values_.empty() || values_.back() <= value);
  values_.push_back(value);
}

double Distribution::mean() const {
  if (values_.empty()) return 0.0;
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

double Distribution::Percentile(double percent) const {
  if (values_.empty()) return 0.0;
  if (!sorted_) std::sort(values_.begin(), values_.end());
  sorted_ = true;
  const double place = std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(values_.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values_.size() - 1);
  return values_[below] + (place - static_cast<double>(below)) * (values_[above] - values_[below]);
}

}  // namespace scd
