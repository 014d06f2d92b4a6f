// The arithmetic behind the figures of the table.
#ifndef SCD_EVAL_STATISTICS_H_
#define SCD_EVAL_STATISTICS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "eval/figures.h"

namespace scd {

// Infinite values take part (a median among them is infinite). Absent for no values.
std::optional<double> Median(std::vector<double> values);
std::optional<double> Mean(absl::Span<const double> values);

// Perplexity over all tokens of all windows; KL and total variation over the positions of a window, then over
// windows.
class WindowStatistics {
 public:
  // `positions`: one for each token of the continuation and one more.
  void Add(absl::Span<const PositionFigures> positions);

  std::int64_t num_windows() const { return num_windows_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  // Absent where nothing was added.
  std::optional<double> ppl() const { return Perplexity(nll_); }
  std::optional<double> native_ppl() const { return Perplexity(native_nll_); }
  std::optional<double> kl() const { return PerWindow(kl_); }
  std::optional<double> tv() const { return PerWindow(tv_); }

 private:
  std::optional<double> Perplexity(double nll) const;
  std::optional<double> PerWindow(double sum) const;

  std::int64_t num_windows_ = 0;
  std::int64_t num_tokens_ = 0;
  double nll_ = 0;
  double native_nll_ = 0;
  double kl_ = 0;  // sum of the windows' means
  double tv_ = 0;
};

// Bytes over the prompts of a row.
class ByteStatistics {
 public:
  void Add(const TransferFigures& transfer);

  // Serialized messages over all prompt tokens, native ones included. Absent where nothing was added.
  std::optional<double> bytes_per_token() const;
  // Payload over the tokens that were transferred. Absent where none was.
  std::optional<double> code_bytes_per_transferred_token() const;

 private:
  double prompt_tokens_ = 0;
  double transferred_tokens_ = 0;
  double received_bytes_ = 0;
  double code_bytes_ = 0;
};

// Index of the first token in which two answers differ: the shorter one's length where it begins the longer.
// Absent where they are the same.
std::optional<std::int64_t> FirstDifference(absl::Span<const std::int32_t> a,
                                            absl::Span<const std::int32_t> b);

// Median over questions, a question without a difference counting as one that comes never. Absent where the
// median question has none.
std::optional<double> MedianFirstDifference(absl::Span<const std::optional<std::int64_t>> differences);

}  // namespace scd

#endif  // SCD_EVAL_STATISTICS_H_
