#include "consumer/score_call.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/server/status_mapping.h"
#include "consumer/call_log.h"
#include "consumer/report.h"
#include "consumer/score_table.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Logits are copied on the engine's thread and looked at on the scoring thread, which also ends the call.
class ScoreCall final : public grpc::ServerUnaryReactor, public std::enable_shared_from_this<ScoreCall> {
 public:
  ScoreCall(Serving& serving, grpc::CallbackServerContext* context, const v1::ScoreRequest& request,
            v1::ScoreResponse* response)
      : serving_(serving), context_(context), request_(request), response_(response) {}

  void Start() {
    self_ = shared_from_this();
    if (absl::Status status = SubmitMode(); !status.ok()) End(status);
  }

 private:
  enum class Pass : std::uint8_t { kMode, kNative };

  class Sink final : public ServedPromptSink {
   public:
    Sink(std::shared_ptr<ScoreCall> call, Pass pass) : call_(std::move(call)), pass_(pass) {}

    bool OnToken(const SampledToken&) override { return false; }

    void OnLogits(std::int64_t first_row, ConstTensorView logits) override {
      const float* begin = logits.as<float>();
      auto copy = std::make_shared<const std::vector<float>>(begin, begin + logits.num_elements());
      call_->serving_.score_thread.Post(
          [call = call_, pass = pass_, first_row, copy, shape = logits.shape()] {
            call->AddRows(pass, first_row, ConstTensorView(copy->data(), DType::kF32, shape));
          });
    }

    void OnDone(const absl::Status& status, FinishReason, const ServingRecord& record) override {
      call_->serving_.score_thread.Post(
          [call = call_, pass = pass_, status, record] { call->PassDone(pass, status, record); });
    }

   private:
    const std::shared_ptr<ScoreCall> call_;
    const Pass pass_;
  };

  absl::Status SubmitMode() {
    request_id_ = serving_.RequestId(request_.request_id());
    SCD_ASSIGN_OR_RETURN(lease_, serving_.requests.Admit());
    trace_ = BeginTrace(serving_.traces, request_id_);
    SCD_RETURN_IF_ERROR(CheckRequestId(request_.request_id()));
    std::optional<TraceSpan> tokenising;
    tokenising.emplace(trace_.get(), TraceTrack::kRequest, "tokenise");
    SCD_ASSIGN_OR_RETURN(prompt_, serving_.encoder.Encode(request_.prompt()));
    SCD_ASSIGN_OR_RETURN(std::vector<std::int32_t> continuation, Continuation());
    tokenising.reset();
    SCD_RETURN_IF_ERROR(TakeMemory(static_cast<std::int64_t>(continuation.size()) + 1));
    SCD_ASSIGN_OR_RETURN(const TransferChoice choice, ChooseTransfer(serving_.transfer, request_.transfer()));
    PromptToServe prompt;
    prompt.request_id = request_id_;
    prompt.engine.trace = trace_;
    prompt.engine.prompt = prompt_;
    prompt.engine.score = true;
    prompt.engine.continuation = continuation;
    SCD_RETURN_IF_ERROR(serving_.Decide(choice, prompt));
    table_.emplace(std::move(continuation), request_.compare_with_native());
    before_submit_ = absl::Now() - arrival_;
    return Submit(std::move(prompt), Pass::kMode);
  }

  absl::StatusOr<std::vector<std::int32_t>> Continuation() const {
    std::vector<std::int32_t> ids;
    if (request_.continuation_case() == v1::ScoreRequest::kText) {
      SCD_ASSIGN_OR_RETURN(ids, serving_.encoder.EncodeContinuation(request_.text()));
    } else {
      ids.assign(request_.tokens().ids().begin(), request_.tokens().ids().end());
      SCD_RETURN_IF_ERROR(serving_.encoder.CheckIds("tokens.ids", ids));
    }
    const std::int64_t total = static_cast<std::int64_t>(prompt_.size() + ids.size());
    if (total <= serving_.generate.max_positions) return ids;
    return absl::InvalidArgumentError(
        absl::StrCat("continuation: has ", ids.size(), " tokens after ", prompt_.size(),
                     " prompt tokens: only ", serving_.generate.max_positions, " positions can be served"));
  }

  absl::Status TakeMemory(std::int64_t num_rows) {
    const std::int64_t row_bytes = serving_.config.vocab_size * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t most = serving_.score_logits.total() / row_bytes;
    if (num_rows > most) {
      return absl::InvalidArgumentError(absl::StrCat("continuation: has ", num_rows - 1, " tokens, at most ",
                                                     most - 1, " can be scored at once"));
    }
    absl::StatusOr<ByteBudget::Lease> memory = serving_.score_logits.Take(num_rows * row_bytes);
    if (!memory.ok()) {
      return absl::ResourceExhaustedError(absl::StrCat("memory for logits: ", memory.status().message()));
    }
    memory_ = *std::move(memory);
    return absl::OkStatus();
  }

  absl::Status SubmitNative() {
    PromptToServe prompt;
    prompt.request_id = request_id_;
    prompt.engine.trace = trace_;
    prompt.engine.prompt = std::move(prompt_);
    prompt.engine.score = true;
    prompt.engine.continuation.assign(table_->continuation().begin(), table_->continuation().end());
    return Submit(std::move(prompt), Pass::kNative);
  }

  absl::Status Submit(PromptToServe prompt, Pass pass) {
    SCD_ASSIGN_OR_RETURN(
        std::shared_ptr<ServedPrompt> served,
        ServedPrompt::Submit(serving_.engine, serving_.metrics, serving_.prompts, std::move(prompt),
                             std::make_shared<Sink>(shared_from_this(), pass)));
    bool cancelled = false;
    {
      absl::MutexLock lock(&mutex_);
      served_ = served;
      cancelled = cancelled_;
    }
    if (cancelled) served->Cancel(ClientGone(*context_));
    return absl::OkStatus();
  }

  void AddRows(Pass pass, std::int64_t first_row, ConstTensorView logits) {
    if (!rows_status_.ok()) return;
    rows_status_ =
        pass == Pass::kMode ? table_->AddMode(first_row, logits) : table_->AddNative(first_row, logits);
  }

  void PassDone(Pass pass, const absl::Status& status, const ServingRecord& record) {
    if (!status.ok()) return End(status);
    if (!rows_status_.ok()) return End(rows_status_);
    if (pass == Pass::kMode) {
      record_ = record;
      if (request_.compare_with_native()) {
        if (absl::Status submitted = SubmitNative(); !submitted.ok()) End(submitted);
        return;
      }
    }
    if (absl::Status complete = table_->CheckComplete(); !complete.ok()) return End(complete);
    FillResponse();
    End(absl::OkStatus());
  }

  void FillResponse() {
    const absl::Span<const PositionResult> results = table_->results();
    for (std::size_t i = 0; i < results.size(); ++i) {
      v1::PositionScore* score = response_->add_positions();
      if (i < table_->continuation().size()) score->set_token_id(table_->continuation()[i]);
      score->set_logprob(results[i].logprob);
      score->set_kl(results[i].kl);
      score->set_tv(results[i].tv);
      score->set_native_logprob(results[i].native_logprob);
    }
    *response_->mutable_report() =
        MakeReport(record_, serving_.config, before_submit_, absl::Now() - arrival_);
    LogServed(serving_.log, "Score", request_id_, response_->report());
  }

  void End(const absl::Status& status) {
    if (!status.ok()) LogFailure(serving_.log, "Score", request_id_, status);
    serving_.metrics.RequestEnded("Score", status.code());
    if (trace_ != nullptr) trace_->End(StatusCodeLabel(status.code()));
    Finish(ToGrpcStatus(status));
  }

  void OnCancel() override {
    std::shared_ptr<ServedPrompt> served;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      served = served_;
    }
    if (served != nullptr) served->Cancel(ClientGone(*context_));
  }

  void OnDone() override { self_.reset(); }

  Serving& serving_;
  grpc::CallbackServerContext* const context_;
  const v1::ScoreRequest& request_;
  v1::ScoreResponse* const response_;
  const absl::Time arrival_ = absl::Now();
  std::shared_ptr<ScoreCall> self_;
  RequestTracker::Lease lease_;
  ByteBudget::Lease memory_;
  std::string request_id_;
  std::shared_ptr<RequestTrace> trace_;  // null: not traced
  absl::Duration before_submit_;

  // From Start, then the scoring thread.
  std::vector<std::int32_t> prompt_;
  std::optional<ScoreTable> table_;
  absl::Status rows_status_;
  ServingRecord record_;

  absl::Mutex mutex_;
  std::shared_ptr<ServedPrompt> served_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* StartScoreCall(Serving& serving, grpc::CallbackServerContext* context,
                                         const v1::ScoreRequest& request, v1::ScoreResponse* response) {
  const auto call = std::make_shared<ScoreCall>(serving, context, request, response);
  call->Start();
  return call.get();
}

}  // namespace scd
