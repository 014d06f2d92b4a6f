#include "consumer/score_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "consumer/score_math.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Span<const float> RowOf(ConstTensorView logits, std::int64_t row) {
  return {logits.row<float>(row), static_cast<std::size_t>(logits.dim(1))};
}

}  // namespace

ScoreTable::ScoreTable(std::vector<std::int32_t> continuation, bool keep_logits)
    : continuation_(std::move(continuation)),
      keep_logits_(keep_logits),
      rows_(continuation_.size() + 1),
      results_(continuation_.size() + 1) {}

absl::Status ScoreTable::CheckRows(std::int64_t first_row, ConstTensorView logits) const {
  if (logits.rank() == 2 && first_row >= 0 && first_row + logits.dim(0) <= num_rows())
    return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("logits ", logits.shape().ToString(), " from row ", first_row, " of ", num_rows()));
}

absl::Status ScoreTable::AddMode(std::int64_t first_row, ConstTensorView logits) {
  SCD_RETURN_IF_ERROR(CheckRows(first_row, logits));
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    const auto index = static_cast<std::size_t>(first_row + i);
    const absl::Span<const float> values = RowOf(logits, i);
    Row& row = rows_[index];
    SCD_ASSIGN_OR_RETURN(row.log_total, LogSumExp(values));
    row.has_mode = true;
    if (keep_logits_) row.logits.assign(values.begin(), values.end());
    if (index < continuation_.size()) {
      results_[index].logprob = values[static_cast<std::size_t>(continuation_[index])] - row.log_total;
    }
  }
  return absl::OkStatus();
}

absl::Status ScoreTable::AddNative(std::int64_t first_row, ConstTensorView logits) {
  SCD_RETURN_IF_ERROR(CheckRows(first_row, logits));
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    const auto index = static_cast<std::size_t>(first_row + i);
    const absl::Span<const float> values = RowOf(logits, i);
    Row& row = rows_[index];
    if (row.logits.size() != values.size())
      return absl::InternalError(absl::StrCat("no logits to compare row ", index));
    SCD_ASSIGN_OR_RETURN(const double log_total, LogSumExp(values));
    const Divergence divergence = Compare(values, log_total, row.logits, row.log_total);
    row.logits = std::vector<float>();
    row.has_native = true;
    results_[index].kl = divergence.kl;
    results_[index].tv = divergence.tv;
    if (index < continuation_.size()) {
      results_[index].native_logprob = values[static_cast<std::size_t>(continuation_[index])] - log_total;
    }
  }
  return absl::OkStatus();
}

absl::Status ScoreTable::CheckComplete() const {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].has_mode || (keep_logits_ && !rows_[i].has_native)) {
      return absl::InternalError(absl::StrCat("no logits for row ", i));
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
