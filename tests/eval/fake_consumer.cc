#include "tests/eval/fake_consumer.h"

#include <chrono>
#include <utility>

#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace scd::testing {
namespace {

constexpr int kCodeBytes = 10;
constexpr int kFramingBytes = 50;

}  // namespace

FakeConsumer::FakeConsumer() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeConsumer::~FakeConsumer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
}

void FakeConsumer::LieInReports(ReportLie lie) {
  absl::MutexLock lock(&mutex_);
  report_lie_ = std::move(lie);
}
void FakeConsumer::LieInScores(ScoreLie lie) {
  absl::MutexLock lock(&mutex_);
  score_lie_ = std::move(lie);
}
void FakeConsumer::PauseRequests(Pause pause) {
  absl::MutexLock lock(&mutex_);
  pause_ = std::move(pause);
}
int FakeConsumer::num_requests() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(transfers_.size());
}
std::vector<v1::Transfer> FakeConsumer::transfers() const {
  absl::MutexLock lock(&mutex_);
  return transfers_;
}

v1::TransferReport FakeConsumer::Serve(grpc::ServerContext& context, const v1::Prompt& prompt,
                                       const v1::Transfer& transfer) {
  ReportLie lie;
  Pause pause;
  {
    absl::MutexLock lock(&mutex_);
    lie = report_lie_;
    pause = pause_;
    transfers_.push_back(transfer);
  }
  if (pause) pause(context);
  const bool local = transfer.mode() == "local";
  const auto tokens = static_cast<std::uint32_t>(
      prompt.has_tokens() ? prompt.tokens().ids_size() : static_cast<int>(prompt.text().size()));
  const std::uint32_t transferred =
      local ? 0 : tokens - 1 - transfer.plan().native_head() - transfer.plan().native_tail();
  v1::TransferReport report;
  report.set_mode(transfer.mode());
  if (local) report.set_reason("policy_off");
  report.set_prompt_tokens(tokens);
  report.set_transferred_tokens(transferred);
  report.set_computed_tokens(tokens - transferred);
  report.set_stored_tokens(local || transfer.no_code_store() ? 0 : transferred);
  report.set_code_bytes(transferred * kCodeBytes);
  report.set_received_bytes(local ? 0 : transferred * kCodeBytes + kFramingBytes);
  report.set_raw_kv_bytes(tokens * 100);
  report.set_first_token_ms(local ? 40 : transfer.no_code_store() ? 20 : 5);
  report.set_transfer_ms(local ? 0 : 8);
  if (lie) lie(transfer, report);
  return report;
}

grpc::Status FakeConsumer::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                    grpc::ServerWriter<v1::GenerateResponse>* writer) {
  const v1::TransferReport report = Serve(*context, request->prompt(), request->transfer());
  v1::GenerateResponse token;
  token.mutable_token()->set_id(request->transfer().mode() == "raw" ? 8 : 7);
  token.mutable_token()->set_text(request->transfer().mode() == "raw" ? " no" : " yes");
  writer->Write(token);
  v1::GenerateResponse done;
  done.mutable_done()->set_finish_reason(v1::FINISH_REASON_STOP_TEXT);
  done.mutable_done()->set_num_tokens(1);
  *done.mutable_done()->mutable_report() = report;
  writer->Write(done);
  return grpc::Status::OK;
}

grpc::Status FakeConsumer::Score(grpc::ServerContext* context, const v1::ScoreRequest* request,
                                 v1::ScoreResponse* response) {
  *response->mutable_report() = Serve(*context, request->prompt(), request->transfer());
  const bool local = request->transfer().mode() == "local";
  const int size = request->tokens().ids_size();
  for (int i = 0; i <= size; ++i) {
    v1::PositionScore* position = response->add_positions();
    if (i < size) {
      position->set_logprob(local ? -1 : -2);
      position->set_native_logprob(-1);
    }
    position->set_kl(local ? 0 : 0.25);
    position->set_tv(local ? 0 : 0.5);
  }
  ScoreLie lie;
  {
    absl::MutexLock lock(&mutex_);
    lie = score_lie_;
  }
  if (lie) lie(*request, *response);
  return grpc::Status::OK;
}

grpc::Status FakeConsumer::Info(grpc::ServerContext*, const v1::ConsumerInfoRequest*,
                                v1::ConsumerInfo* info) {
  v1::ModelInfo& model = *info->mutable_model();
  model.set_description("the expert");
  model.set_digest(std::string(16, '\x0E'));
  model.set_num_layers(2);
  model.set_num_kv_heads(3);
  model.set_head_dim(4);
  info->mutable_bundle()->set_path("no/such/folder");
  info->mutable_bundle()->set_digest(std::string(16, '\x0B'));
  info->mutable_bundle()->set_producer_model_digest(std::string(16, '\x0A'));
  info->set_producer_address("127.0.0.1:1");
  info->set_plan("what it has");
  info->set_backend("a fake");
  return grpc::Status::OK;
}

}  // namespace scd::testing
