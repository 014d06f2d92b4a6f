// Tables and numbers for tests of the entropy codec, and a second coder: the text of docs/formats.md word by
// word, slow and with none of the fast one's tricks.
#ifndef SCD_TESTS_COMMON_WIRE_ENTROPY_SAMPLES_H_
#define SCD_TESTS_COMMON_WIRE_ENTROPY_SAMPLES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/config/entropy_tables.h"

namespace scd::testing {

struct OwnedTables {
  std::vector<float> steps;
  std::vector<std::int32_t> frequencies;

  EntropyTables view() const { return {steps, frequencies}; }
  std::size_t rank() const { return steps.size(); }
  // Of one column, [kEntropySymbols].
  const std::int32_t* row(std::size_t column) const {
    return frequencies.data() + column * static_cast<std::size_t>(kEntropySymbols);
  }
  void Add(float step, const std::vector<std::int32_t>& row) {
    steps.push_back(step);
    frequencies.insert(frequencies.end(), row.begin(), row.end());
  }
};

// Numbers of normal distribution whose deviation, in steps, falls from `most` at column 0 to `least` at the
// last one that is sent; the last third of the columns is not. Equal seeds give equal numbers.
class LatentSource {
 public:
  LatentSource(std::size_t rank, double most, double least, std::uint32_t seed) : random_(seed) {
    const std::size_t sent = rank - rank / 3;
    for (std::size_t c = 0; c < rank; ++c) {
      const double share = sent > 1 ? static_cast<double>(c) / static_cast<double>(sent - 1) : 0.0;
      deviations_.push_back(most * std::pow(least / most, std::sqrt(std::min(share, 1.0))));
      if (c >= sent) {
        tables_.Add(0.0f, std::vector<std::int32_t>(static_cast<std::size_t>(kEntropySymbols), 0));
        continue;
      }
      std::vector<std::int64_t> counts(static_cast<std::size_t>(kEntropySymbols), 0);
      for (int i = 0; i < 20000; ++i) {
        const double q = std::nearbyint(normal_(random_) * deviations_[c]);
        ++counts[static_cast<std::size_t>(std::abs(q) <= kLargestSymbolValue ? q + kLargestSymbolValue
                                                                             : kEscapeSymbol)];
      }
      tables_.Add(0.01f * static_cast<float>(1 + c % 7), FitFrequencies(counts));
    }
  }

  const OwnedTables& tables() const { return tables_; }

  // [num_tokens, rank]
  std::vector<float> Rows(std::int64_t num_tokens) {
    std::vector<float> rows;
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      for (std::size_t c = 0; c < deviations_.size(); ++c) {
        const double step = tables_.steps[c] == 0.0f ? 1.0 : tables_.steps[c];
        rows.push_back(static_cast<float>(normal_(random_) * deviations_[c] * step));
      }
    }
    return rows;
  }

  // Bits of one token, from the distributions themselves.
  double IdealBits() const {
    double bits = 0;
    for (std::size_t c = 0; c < deviations_.size(); ++c) {
      if (tables_.steps[c] == 0.0f) continue;
      const auto below = [&](double x) { return 0.5 * std::erfc(-x / deviations_[c] / std::sqrt(2.0)); };
      for (int q = -200; q <= 200; ++q) {
        const double p = below(q + 0.5) - below(q - 0.5);
        if (p > 0) bits -= p * std::log2(p);
      }
    }
    return bits;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::vector<double> deviations_;
  OwnedTables tables_;
};

inline std::int64_t PlainQuantise(float number, float step) {
  const float inverse = 1.0f / step;
  const float scaled = number * inverse;
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(scaled)));
}

// What the codec makes of rows [tokens, rank].
inline std::vector<float> PlainRebuilt(const OwnedTables& tables, const std::vector<float>& rows) {
  std::vector<float> rebuilt;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float step = tables.steps[i % tables.rank()];
    rebuilt.push_back(step == 0.0f ? 0.0f : static_cast<float>(PlainQuantise(rows[i], step)) * step);
  }
  return rebuilt;
}

// One granule with its length; rows [num_tokens, rank].
inline std::string PlainGranule(const OwnedTables& tables, const float* rows, std::int64_t num_tokens) {
  std::array<std::uint64_t, 4> states;
  states.fill(65536);
  std::string words, escapes;
  for (std::size_t c = tables.rank(); c-- > 0;) {
    if (tables.steps[c] == 0.0f) continue;
    const std::int32_t* const frequencies = tables.row(c);
    for (std::int64_t t = num_tokens; t-- > 0;) {
      const std::int64_t q =
          PlainQuantise(rows[static_cast<std::size_t>(t) * tables.rank() + c], tables.steps[c]);
      std::int64_t symbol = q + 63;
      if (q < -63 || q > 63 || frequencies[symbol] == 0) {
        symbol = 127;
        std::uint64_t bits = static_cast<std::uint64_t>(q >= 0 ? 2 * q : -2 * q - 1);
        std::string bytes;
        for (; bits >= 128; bits /= 128) bytes.insert(bytes.begin(), static_cast<char>(bits % 128 + 128));
        bytes.insert(bytes.begin(), static_cast<char>(bits));
        escapes += bytes;
      }
      std::uint64_t start = 0;
      for (std::int64_t s = 0; s < symbol; ++s) start += static_cast<std::uint64_t>(frequencies[s]);
      const auto frequency = static_cast<std::uint64_t>(frequencies[symbol]);
      std::uint64_t& x = states[static_cast<std::size_t>(t % 4)];
      if (x >= frequency * (1 << 20)) {
        words.insert(0, {static_cast<char>(x % 256), static_cast<char>(x / 256 % 256)});
        x /= 65536;
      }
      x = 4096 * (x / frequency) + x % frequency + start;
    }
  }
  std::string body;
  for (const std::uint64_t x : states) {
    for (int shift = 0; shift < 32; shift += 8) body.push_back(static_cast<char>(x >> shift));
  }
  body += words + escapes;
  std::string granule;
  for (int shift = 0; shift < 24; shift += 8) granule.push_back(static_cast<char>(body.size() >> shift));
  return granule + body;
}

inline std::string PlainPayload(const OwnedTables& tables, const std::vector<float>& rows) {
  const auto num_tokens = static_cast<std::int64_t>(rows.size() / tables.rank());
  std::string payload;
  for (std::int64_t t = 0; t < num_tokens; t += 32) {
    payload += PlainGranule(tables, rows.data() + static_cast<std::size_t>(t) * tables.rank(),
                            std::min<std::int64_t>(32, num_tokens - t));
  }
  return payload;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_WIRE_ENTROPY_SAMPLES_H_
