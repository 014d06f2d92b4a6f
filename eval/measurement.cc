#include "eval/measurement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// One request fills the producer's store, the next finds it filled.
constexpr int kReadyAttempts = 2;

absl::Status AtItem(const char* kind, std::size_t index, const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  return absl::Status(status.code(), absl::StrCat(kind, " ", index, ": ", status.message()));
}

ResolvedRow LocalRow() {
  return {.row = {.name = "local", .group = "", .spec = {}}, .plan = std::nullopt, .plan_text = ""};
}

}  // namespace

Measurement::Measurement(PairSession& session, const EvalData& data, const AnswerOptions& answers,
                         const MeasureSelection& selection, OnRequest on_request)
    : session_(session),
      data_(data),
      answer_options_(answers),
      selection_(selection),
      on_request_(std::move(on_request)) {}

std::int64_t Measurement::NumReadyQuestions() const {
  return std::min(selection_.ready_questions, static_cast<std::int64_t>(data_.questions.size()));
}

std::int64_t Measurement::NumRequests(const std::vector<ResolvedRow>& rows) const {
  const auto windows = selection_.windows ? static_cast<std::int64_t>(data_.windows.size()) : 0;
  const auto questions = static_cast<std::int64_t>(data_.questions.size());
  const std::int64_t answers = selection_.answers ? questions : 0;
  std::int64_t total = answers;  // local's
  for (const ResolvedRow& row : rows) {
    total += windows + (selection_.answer_kl ? questions : 0);
    if (!row.row.spec.is_local()) total += answers + NumReadyQuestions();
  }
  return total;
}

absl::StatusOr<ModeFigures> Measurement::Measure(const ResolvedRow& row) {
  ModeFigures figures;
  figures.row = row.row;
  figures.plan = row.plan_text;
  if (row.row.spec.codec) figures.codec = std::string(CodecName(*row.row.spec.codec));
  bytes_ = ByteStatistics();
  if (selection_.answers && !local_answers_) SCD_RETURN_IF_ERROR(MeasureLocalAnswers());
  // The first requests of a plan wait until both daemons have made its maps ready: they are none of those
  // that are timed.
  if (selection_.windows) SCD_RETURN_IF_ERROR(MeasureWindows(row, &figures));
  if (selection_.answer_kl) SCD_RETURN_IF_ERROR(MeasureAnswerKl(row, &figures));
  if (selection_.answers) SCD_RETURN_IF_ERROR(MeasureAnswers(row, &figures));
  if (!row.row.spec.is_local()) SCD_RETURN_IF_ERROR(MeasureCodesReady(row, &figures));
  figures.bytes_per_token = bytes_.bytes_per_token().value_or(0);
  figures.code_bytes_per_transferred_token = bytes_.code_bytes_per_transferred_token();
  return figures;
}

absl::Status Measurement::MeasureLocalAnswers() {
  const ResolvedRow local = LocalRow();
  std::vector<GeneratedText> answers;
  for (std::size_t i = 0; i < data_.questions.size(); ++i) {
    auto answer = session_.Generate(local, {.text = data_.questions[i].prompt, .ids = {}}, answer_options_);
    SCD_RETURN_IF_ERROR(AtItem("question", i, answer.status()));
    answers.push_back(*std::move(answer));
    on_request_();
  }
  local_answers_ = std::move(answers);
  return absl::OkStatus();
}

absl::Status Measurement::MeasureWindows(const ResolvedRow& row, ModeFigures* figures) {
  WindowStatistics statistics;
  for (std::size_t i = 0; i < data_.windows.size(); ++i) {
    const EvalWindow& window = data_.windows[i];
    const auto scored = session_.Score(row, {.text = "", .ids = window.prefix}, window.continuation);
    SCD_RETURN_IF_ERROR(AtItem("window", i, scored.status()));
    statistics.Add(scored->positions);
    bytes_.Add(scored->transfer);
    on_request_();
  }
  figures->ppl = statistics.ppl();
  figures->kl = statistics.kl();
  figures->tv = statistics.tv();
  return absl::OkStatus();
}

absl::Status Measurement::MeasureAnswerKl(const ResolvedRow& row, ModeFigures* figures) {
  std::vector<double> divergences;
  for (std::size_t i = 0; i < data_.questions.size(); ++i) {
    const auto scored = session_.Score(row, {.text = data_.questions[i].prompt, .ids = {}}, {});
    SCD_RETURN_IF_ERROR(AtItem("question", i, scored.status()));
    divergences.push_back(scored->positions.front().kl);
    // Each prompt counts once.
    if (!selection_.answers) bytes_.Add(scored->transfer);
    on_request_();
  }
  figures->kl_answer = Mean(divergences);
  return absl::OkStatus();
}

absl::Status Measurement::MeasureAnswers(const ResolvedRow& row, ModeFigures* figures) {
  const bool local = row.row.spec.is_local();
  std::vector<double> f1, exact, cold, native;
  std::vector<std::optional<std::int64_t>> differences;
  for (std::size_t i = 0; i < data_.questions.size(); ++i) {
    const EvalQuestion& question = data_.questions[i];
    const GeneratedText& own = (*local_answers_)[i];
    GeneratedText answer = own;
    if (!local) {
      auto generated = session_.Generate(row, {.text = question.prompt, .ids = {}}, answer_options_);
      SCD_RETURN_IF_ERROR(AtItem("question", i, generated.status()));
      answer = *std::move(generated);
      cold.push_back(answer.transfer.first_token_ms);
      on_request_();
    }
    const AnswerScore score = ScoreAnswer(
        question.scorer, std::string(absl::StripAsciiWhitespace(answer.text)), question.references);
    f1.push_back(score.f1);
    exact.push_back(score.exact);
    differences.push_back(FirstDifference(answer.token_ids, own.token_ids));
    native.push_back(own.transfer.first_token_ms);
    bytes_.Add(answer.transfer);
  }
  figures->f1 = Mean(f1);
  figures->exact = Mean(exact);
  figures->first_difference = MedianFirstDifference(differences);
  figures->ttft_ms_cold = Median(cold);
  figures->ttft_ms_native = Median(native);
  return absl::OkStatus();
}

absl::Status Measurement::MeasureCodesReady(const ResolvedRow& row, ModeFigures* figures) {
  std::vector<double> ready;
  const auto count = static_cast<std::size_t>(NumReadyQuestions());
  for (std::size_t i = 0; i < count; ++i) {
    const auto ttft = TtftCodesReady(session_, row, {.text = data_.questions[i].prompt, .ids = {}});
    SCD_RETURN_IF_ERROR(AtItem("question", i, ttft.status()));
    if (*ttft) ready.push_back(**ttft);
    on_request_();
  }
  figures->ttft_ms_codes_ready = Median(ready);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<double>> TtftCodesReady(PairSession& session, const ResolvedRow& row,
                                                     const EvalPrompt& prompt) {
  const AnswerOptions one_token{.max_tokens = 1, .stop = {}};
  for (int attempt = 0; attempt < kReadyAttempts; ++attempt) {
    SCD_ASSIGN_OR_RETURN(const GeneratedText answer,
                         session.Generate(row, prompt, one_token, CodeUse::kStored));
    if (attempt > 0 && answer.transfer.stored_tokens > 0) return answer.transfer.first_token_ms;
  }
  return std::nullopt;
}

}  // namespace scd
