#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace scd {

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> Mean(absl::Span<const double> values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void WindowStatistics::Add(absl::Span<const PositionFigures> positions) {
  if (positions.empty()) return;
  double kl = 0;
  double tv = 0;
  for (const PositionFigures& position : positions) {
    kl += position.kl;
    tv += position.tv;
  }
  for (const PositionFigures& position : positions.subspan(0, positions.size() - 1)) {
    nll_ -= position.logprob;
    native_nll_ -= position.native_logprob;
  }
  const auto size = static_cast<double>(positions.size());
  kl_ += kl / size;
  tv_ += tv / size;
  num_tokens_ += static_cast<std::int64_t>(positions.size()) - 1;
  ++num_windows_;
}

std::optional<double> WindowStatistics::Perplexity(double nll) const {
  if (num_tokens_ == 0) return std::nullopt;
  return std::exp(nll / static_cast<double>(num_tokens_));
}

std::optional<double> WindowStatistics::PerWindow(double sum) const {
  if (num_windows_ == 0) return std::nullopt;
  return sum / static_cast<double>(num_windows_);
}

void ByteStatistics::Add(const TransferFigures& transfer) {
  prompt_tokens_ += static_cast<double>(transfer.prompt_tokens);
  transferred_tokens_ += static_cast<double>(transfer.transferred_tokens);
  received_bytes_ += static_cast<double>(transfer.received_bytes);
  code_bytes_ += static_cast<double>(transfer.code_bytes);
}

std::optional<double> ByteStatistics::bytes_per_token() const {
  if (prompt_tokens_ == 0) return std::nullopt;
  return received_bytes_ / prompt_tokens_;
}

std::optional<double> ByteStatistics::code_bytes_per_transferred_token() const {
  if (transferred_tokens_ == 0) return std::nullopt;
  return code_bytes_ / transferred_tokens_;
}

std::optional<std::int64_t> FirstDifference(absl::Span<const std::int32_t> a,
                                            absl::Span<const std::int32_t> b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < shorter; ++i) {
    if (a[i] != b[i]) return static_cast<std::int64_t>(i);
  }
  if (a.size() == b.size()) return std::nullopt;
  return static_cast<std::int64_t>(shorter);
}

std::optional<double> MedianFirstDifference(absl::Span<const std::optional<std::int64_t>> differences) {
  std::vector<double> values;
  for (const std::optional<std::int64_t>& difference : differences) {
    values.push_back(difference ? static_cast<double>(*difference) : std::numeric_limits<double>::infinity());
  }
  const std::optional<double> median = Median(std::move(values));
  if (!median || !std::isfinite(*median)) return std::nullopt;
  return median;
}

}  // namespace scd
