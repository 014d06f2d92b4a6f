#include "tests/support/hostile_producer.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace scd::testing {

HostileProducer::HostileProducer(const std::string& honest_address)
    : honest_(
          v1::Producer::NewStub(grpc::CreateChannel(honest_address, grpc::InsecureChannelCredentials()))) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
}

HostileProducer::~HostileProducer() {
  server_->Shutdown(std::chrono::system_clock::now());
}

void HostileProducer::SetScript(Script script) {
  absl::MutexLock lock(&mutex_);
  script_ = std::move(script);
}

void HostileProducer::SetInfoScript(InfoScript script) {
  absl::MutexLock lock(&mutex_);
  info_script_ = std::move(script);
}

grpc::Status HostileProducer::SendAll(const std::vector<v1::PrefillResponse>& responses, Writer& writer) {
  for (const v1::PrefillResponse& response : responses) writer.Write(response);
  return grpc::Status::OK;
}

grpc::Status HostileProducer::Hang(grpc::ServerContext& context) {
  while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return grpc::Status::CANCELLED;
}

grpc::Status HostileProducer::Prefill(grpc::ServerContext* context, const v1::PrefillRequest* request,
                                      Writer* writer) {
  ++num_prefill_calls_;
  grpc::ClientContext honest_context;
  const auto reader = honest_->Prefill(&honest_context, *request);
  std::vector<v1::PrefillResponse> responses;
  v1::PrefillResponse response;
  while (reader->Read(&response)) responses.push_back(std::move(response));
  if (const grpc::Status status = reader->Finish(); !status.ok()) return status;
  Script script;
  {
    absl::MutexLock lock(&mutex_);
    script = script_;
  }
  return script ? script(std::move(responses), *writer, *context) : SendAll(responses, *writer);
}

grpc::Status HostileProducer::Info(grpc::ServerContext*, const v1::ProducerInfoRequest* request,
                                   v1::ProducerInfo* response) {
  ++num_info_calls_;
  grpc::ClientContext honest_context;
  const grpc::Status status = honest_->Info(&honest_context, *request, response);
  absl::MutexLock lock(&mutex_);
  if (status.ok() && info_script_) info_script_(*response);
  return status;
}

}  // namespace scd::testing
