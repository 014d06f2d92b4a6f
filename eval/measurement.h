// Measures one row of the table after the other on a running pair.
#ifndef SCD_EVAL_MEASUREMENT_H_
#define SCD_EVAL_MEASUREMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/eval_data.h"
#include "eval/pair_session.h"
#include "eval/results.h"
#include "eval/statistics.h"

namespace scd {

// Which figures are wanted; each costs requests.
struct MeasureSelection {
  bool windows = true;                // ppl, kl, tv: one request a window
  bool answers = true;                // f1, exact, first_difference, ttft_ms_cold: one a question
  bool answer_kl = true;              // kl_answer: one a question
  std::int64_t ready_questions = 20;  // ttft_ms_codes_ready: two for each of the first so many questions
};

class Measurement {
 public:
  // Called after each request.
  using OnRequest = std::function<void()>;

  // All outlive this.
  Measurement(PairSession& session, const EvalData& data, const AnswerOptions& answers,
              const MeasureSelection& selection, OnRequest on_request);

  // Requests that rows take altogether, local's answers included.
  std::int64_t NumRequests(const std::vector<ResolvedRow>& rows) const;

  // An error names the row and the window or question (from 0).
  absl::StatusOr<ModeFigures> Measure(const ResolvedRow& row);

 private:
  absl::Status MeasureLocalAnswers();  // once: every row is compared with them
  absl::Status MeasureWindows(const ResolvedRow& row, ModeFigures* figures);
  absl::Status MeasureAnswerKl(const ResolvedRow& row, ModeFigures* figures);
  absl::Status MeasureAnswers(const ResolvedRow& row, ModeFigures* figures);
  absl::Status MeasureCodesReady(const ResolvedRow& row, ModeFigures* figures);
  std::int64_t NumReadyQuestions() const;

  PairSession& session_;
  const EvalData& data_;
  const AnswerOptions answer_options_;
  const MeasureSelection selection_;
  const OnRequest on_request_;
  std::optional<std::vector<GeneratedText>> local_answers_;
  ByteStatistics bytes_;  // of the row that is measured
};

// TTFT of a prompt whose codes the producer has in its store; absent where it keeps none of it.
absl::StatusOr<std::optional<double>> TtftCodesReady(PairSession& session, const ResolvedRow& row,
                                                     const EvalPrompt& prompt);

}  // namespace scd

#endif  // SCD_EVAL_MEASUREMENT_H_
