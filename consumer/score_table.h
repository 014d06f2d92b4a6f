// The scores of one continuation, filled from blocks of logits as they come: first those of the mode that was
// asked for, then, where they are compared, those of the native prefill.
#ifndef SCD_CONSUMER_SCORE_TABLE_H_
#define SCD_CONSUMER_SCORE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/tensor_view.h"

namespace scd {

struct PositionResult {
  double logprob = 0;  // nats; 0 in the last position
  double kl = 0;       // KL(native || mode), nats
  double tv = 0;
  double native_logprob = 0;
};

// One row for each token of the continuation and one for what would follow. For one thread.
class ScoreTable {
 public:
  // keep_logits: rows are to be compared, and kept until they were.
  ScoreTable(std::vector<std::int32_t> continuation, bool keep_logits);

  std::int64_t num_rows() const { return static_cast<std::int64_t>(results_.size()); }

  // logits [rows, vocabulary] f32 of score positions first_row on. INTERNAL for logits that are no
  // distribution, or rows out of range.
  absl::Status AddMode(std::int64_t first_row, ConstTensorView logits);
  // After AddMode of the same rows, which are forgotten.
  absl::Status AddNative(std::int64_t first_row, ConstTensorView logits);

  // OK once every row was added (by AddNative too where rows are compared).
  absl::Status CheckComplete() const;
  absl::Span<const PositionResult> results() const { return results_; }
  absl::Span<const std::int32_t> continuation() const { return continuation_; }

 private:
  struct Row {
    std::vector<float> logits;  // until they were compared
    double log_total = 0;
    bool has_mode = false;
    bool has_native = false;
  };

  absl::Status CheckRows(std::int64_t first_row, ConstTensorView logits) const;

  const std::vector<std::int32_t> continuation_;
  const bool keep_logits_;
  std::vector<Row> rows_;
  std::vector<PositionResult> results_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_SCORE_TABLE_H_
