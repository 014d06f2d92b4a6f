#include "consumer/generate_call.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/server/status_mapping.h"
#include "consumer/answer_writer.h"
#include "consumer/call_log.h"
#include "consumer/report.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case FinishReason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
    case FinishReason::kStopped:
      return v1::FINISH_REASON_STOP_TEXT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// Kept alive by gRPC until its OnDone, and by the engine until the prompt is done.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                           public ServedPromptSink,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  GenerateCall(Serving& serving, grpc::CallbackServerContext* context)
      : serving_(serving), context_(context) {}

  void Start(const v1::GenerateRequest& request) {
    self_ = shared_from_this();
    if (absl::Status status = Submit(request); !status.ok()) {
      LogFailure(serving_.log, "Generate", request_id_, status);
      serving_.metrics.RequestEnded("Generate", status.code());
      EndTrace(status);
      Finish(ToGrpcStatus(status));
    }
  }

 private:
  absl::Status Submit(const v1::GenerateRequest& request) {
    request_id_ = serving_.RequestId(request.request_id());
    SCD_ASSIGN_OR_RETURN(lease_, serving_.requests.Admit());
    trace_ = BeginTrace(serving_.traces, request_id_);
    std::optional<TraceSpan> tokenising;
    tokenising.emplace(trace_.get(), TraceTrack::kRequest, "tokenise");
    SCD_ASSIGN_OR_RETURN(CheckedGenerate checked,
                         CheckGenerate(request, serving_.encoder, serving_.generate));
    tokenising.reset();
    SCD_ASSIGN_OR_RETURN(const TransferChoice choice, ChooseTransfer(serving_.transfer, request.transfer()));
    writer_.emplace(serving_.tokenizer, std::move(checked.stop));
    PromptToServe prompt;
    prompt.request_id = request_id_;
    prompt.engine.trace = trace_;
    prompt.engine.prompt = std::move(checked.prompt);
    prompt.engine.max_tokens = checked.max_tokens;
    prompt.engine.sampling = checked.sampling;
    prompt.engine.stop_token_ids = std::move(checked.stop_token_ids);
    SCD_RETURN_IF_ERROR(serving_.Decide(choice, prompt));
    before_submit_ = absl::Now() - arrival_;
    SCD_ASSIGN_OR_RETURN(std::shared_ptr<ServedPrompt> served,
                         ServedPrompt::Submit(serving_.engine, serving_.metrics, serving_.prompts,
                                              std::move(prompt), shared_from_this()));
    absl::MutexLock lock(&mutex_);
    served_ = std::move(served);
    return absl::OkStatus();
  }

  // --- from the engine's thread ---
  bool OnToken(const SampledToken& token) override {
    v1::GenerateResponse response;
    const bool more = writer_->Add(token, *response.mutable_token());
    absl::MutexLock lock(&mutex_);
    if (client_gone_) return false;
    if (static_cast<std::int64_t>(unsent_.size()) >= serving_.max_unsent_tokens) {
      too_slow_ = true;
      return false;
    }
    Send(std::move(response));
    return more;
  }

  void OnLogits(std::int64_t, ConstTensorView) override {}

  void OnDone(const absl::Status& status, FinishReason reason, const ServingRecord& record) override {
    if (record.engine.first_token_ms > 0) {
      serving_.metrics.FirstToken(absl::ToDoubleMilliseconds(before_submit_) + record.engine.first_token_ms,
                                  record.transfer, record.engine);
    }
    v1::GenerateResponse response;
    if (status.ok()) FillDone(reason, record, *response.mutable_done());
    bool cancel = false;
    {
      absl::MutexLock lock(&mutex_);
      final_status_ = status;
      if (too_slow_) {
        final_status_ = absl::ResourceExhaustedError(
            absl::StrCat(serving_.max_unsent_tokens, " tokens wait for the client, which reads too slowly"));
        cancel = true;
        cancelling_ = true;
      } else if (status.ok() && !client_gone_) {
        Send(std::move(response));
      }
      if (!final_status_->ok()) LogFailure(serving_.log, "Generate", request_id_, *final_status_);
      FinishIfDone();
    }
    if (!cancel) return;
    // A write towards a client that does not read would never end by itself. The call does not finish
    // meanwhile: its context goes away with it.
    context_->TryCancel();
    absl::MutexLock lock(&mutex_);
    cancelling_ = false;
    FinishIfDone();
  }

  void FillDone(FinishReason reason, const ServingRecord& record, v1::GenerateDone& done) {
    done.set_finish_reason(ToProto(reason));
    if (!writer_->stopped()) done.set_text(writer_->Finish());
    const std::int64_t num_tokens = writer_->num_tokens();
    done.set_num_tokens(static_cast<std::uint32_t>(num_tokens));
    if (num_tokens > 1) {
      done.set_time_per_output_token_ms(record.engine.decode_ms / static_cast<double>(num_tokens - 1));
      serving_.metrics.OutputTokens(done.time_per_output_token_ms());
    }
    *done.mutable_report() = MakeReport(record, serving_.config, before_submit_, absl::Now() - arrival_);
    LogServed(serving_.log, "Generate", request_id_, done.report());
  }

  // --- from gRPC ---
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      client_gone_ = true;
      unsent_.clear();
    }
    WriteNext();
    FinishIfDone();
  }

  void OnCancel() override {
    std::shared_ptr<ServedPrompt> served;
    {
      absl::MutexLock lock(&mutex_);
      client_gone_ = true;
      unsent_.clear();
      served = served_;
    }
    if (served != nullptr) served->Cancel(ClientGone(*context_));
  }

  void OnDone() override { self_.reset(); }

  void Send(v1::GenerateResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    unsent_.push_back(std::move(response));
    WriteNext();
  }

  // One write is under way at a time.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || unsent_.empty()) return;
    writing_ = true;
    in_flight_ = std::move(unsent_.front());
    unsent_.pop_front();
    StartWrite(&in_flight_);
  }

  void FinishIfDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!final_status_.has_value() || finished_ || cancelling_ || writing_ || !unsent_.empty()) return;
    finished_ = true;
    serving_.metrics.RequestEnded("Generate", final_status_->code());
    EndTrace(*final_status_);
    Finish(ToGrpcStatus(*final_status_));
  }

  void EndTrace(const absl::Status& status) {
    if (trace_ != nullptr) trace_->End(StatusCodeLabel(status.code()));
  }

  Serving& serving_;
  grpc::CallbackServerContext* const context_;
  const absl::Time arrival_ = absl::Now();
  std::shared_ptr<GenerateCall> self_;
  RequestTracker::Lease lease_;
  std::string request_id_;
  std::shared_ptr<RequestTrace> trace_;  // null: not traced
  absl::Duration before_submit_;
  std::optional<AnswerWriter> writer_;  // the engine's thread

  absl::Mutex mutex_;
  std::shared_ptr<ServedPrompt> served_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::GenerateResponse> unsent_ ABSL_GUARDED_BY(mutex_);
  v1::GenerateResponse in_flight_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool client_gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool too_slow_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelling_ ABSL_GUARDED_BY(mutex_) = false;  // the context is in use outside of gRPC's callbacks
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(Serving& serving,
                                                                  grpc::CallbackServerContext* context,
                                                                  const v1::GenerateRequest& request) {
  const auto call = std::make_shared<GenerateCall>(serving, context);
  call->Start(request);
  return call.get();
}

}  // namespace scd
