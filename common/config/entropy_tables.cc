#include "common/config/entropy_tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr std::int32_t kTotal = 1 << kEntropyBits;

absl::Status ColumnError(std::int64_t column, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("entropy tables: column ", column, ": ", what));
}

bool IsStep(float step) {
  return step == 0.0f || (step >= kSmallestEntropyStep && step <= kLargestEntropyStep);
}

// Bits (up to a factor) that one more slot saves a symbol that has `frequency` of them.
double Gain(std::int64_t count, std::int32_t frequency) {
  return static_cast<double>(count) * std::log1p(1.0 / frequency);
}

}  // namespace

absl::Status CheckEntropyTables(const EntropyTables& tables) {
  const std::int64_t rank = tables.rank();
  if (rank < 1 || rank > kLargestEntropyRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("entropy tables: have ", rank, " columns, not 1 to ", kLargestEntropyRank));
  }
  if (tables.frequencies.size() != static_cast<std::size_t>(rank * kEntropySymbols)) {
    return absl::InvalidArgumentError(absl::StrCat("entropy tables: have ", tables.frequencies.size(),
                                                   " frequencies, not ", kEntropySymbols, " for each of ",
                                                   rank, " columns"));
  }
  for (std::int64_t c = 0; c < rank; ++c) {
    const float step = tables.steps[static_cast<std::size_t>(c)];
    if (!IsStep(step)) return ColumnError(c, absl::StrCat("a step of ", step));
    const auto row = tables.frequencies.subspan(static_cast<std::size_t>(c * kEntropySymbols),
                                                static_cast<std::size_t>(kEntropySymbols));
    for (const std::int32_t frequency : row) {
      if (frequency < 0 || frequency > kTotal) {
        return ColumnError(c, absl::StrCat("a frequency of ", frequency));
      }
    }
    const std::int32_t sum = std::accumulate(row.begin(), row.end(), 0);
    const std::int32_t expected = step == 0.0f ? 0 : kTotal;
    if (sum != expected) {
      return ColumnError(c, absl::StrCat("frequencies sum to ", sum, ", not ", expected));
    }
    if (step != 0.0f && row[static_cast<std::size_t>(kEscapeSymbol)] == 0) {
      return ColumnError(c, "the escape has no frequency");
    }
  }
  return absl::OkStatus();
}

// The cost is convex in each frequency, so single slots moved to where they save most reach the least cost.
std::vector<std::int32_t> FitFrequencies(absl::Span<const std::int64_t> counts) {
  std::vector<std::int32_t> frequencies(counts.size(), 0);
  std::vector<std::size_t> used;
  double total = 0.0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] > 0 || s == static_cast<std::size_t>(kEscapeSymbol)) used.push_back(s);
    total += static_cast<double>(counts[s]);
  }
  std::int32_t sum = 0;
  for (const std::size_t s : used) {
    const double share = total > 0.0 ? static_cast<double>(counts[s]) / total * kTotal : 0.0;
    frequencies[s] = std::max(1, static_cast<std::int32_t>(share));
    sum += frequencies[s];
  }
  const auto gain = [&](std::size_t s) { return Gain(counts[s], frequencies[s]); };
  const auto loss = [&](std::size_t s) { return Gain(counts[s], frequencies[s] - 1); };
  const auto most_gain = [&] {
    return *std::max_element(used.begin(), used.end(),
                             [&](std::size_t a, std::size_t b) { return gain(a) < gain(b); });
  };
  // used.size() where no symbol can spare a slot.
  const auto least_loss = [&] {
    std::size_t least = counts.size();
    for (const std::size_t s : used) {
      if (frequencies[s] > 1 && (least == counts.size() || loss(s) < loss(least))) least = s;
    }
    return least;
  };
  for (; sum < kTotal; ++sum) ++frequencies[most_gain()];
  for (; sum > kTotal; --sum) --frequencies[least_loss()];
  while (true) {
    const std::size_t to = most_gain(), from = least_loss();
    if (from == counts.size() || from == to || gain(to) <= loss(from)) break;
    ++frequencies[to];
    --frequencies[from];
  }
  return frequencies;
}

}  // namespace scd
