#include "common/server/grpc_server.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/server_context.h"
#include "gtest/gtest.h"
#include "scd/v1/producer.grpc.pb.h"
#include "tests/support/loopback.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

const char kHealthCheck[] = "/grpc.health.v1.Health/Check";
const std::string kServing("\x08\x01", 2);
const std::string kNotServing("\x08\x02", 2);

// Info answers with the number of request bytes as the version; Prefill never ends unless it is cancelled.
class FakeService final : public v1::Producer::CallbackService {
 public:
  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext* context, const v1::ProducerInfoRequest* request,
                                 v1::ProducerInfo* response) override {
    response->set_version(std::to_string(request->ByteSizeLong()));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerWriteReactor<v1::PrefillResponse>* Prefill(grpc::CallbackServerContext* /*context*/,
                                                         const v1::PrefillRequest* /*request*/) override {
    class Endless : public grpc::ServerWriteReactor<v1::PrefillResponse> {
     public:
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    prefill_started.Notify();
    return new Endless;
  }

  absl::Notification prefill_started;
};

class GrpcServerTest : public ::testing::Test {
 protected:
  void Start(GrpcServerOptions options = {}) {
    options.listen = {"127.0.0.1", 0};
    const std::vector<NamedService> services = {{"scd.v1.Producer", &service_}};
    auto server = GrpcServer::Start(options, services);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = testing::LoopbackChannel(server_->port());
  }

  std::string Health(const std::string& service) {
    std::string request;
    if (!service.empty()) request = std::string("\x0a", 1) + static_cast<char>(service.size()) + service;
    std::string response;
    const grpc::Status status = testing::RawCall(channel_, kHealthCheck, request, &response);
    return status.ok() ? response : status.error_message();
  }

  FakeService service_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(GrpcServerTest, ServesOnAPortOfTheSystemsChoice) {
  Start();
  EXPECT_GT(server_->port(), 0);
  EXPECT_EQ(server_->address().ToString(), "127.0.0.1:" + std::to_string(server_->port()));
  grpc::ClientContext context;
  v1::ProducerInfo info;
  EXPECT_TRUE(v1::Producer::NewStub(channel_)->Info(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), "0");
}

TEST_F(GrpcServerTest, HealthFollowsSetServing) {
  Start();
  EXPECT_EQ(Health(""), kServing);
  EXPECT_EQ(Health("scd.v1.Producer"), kServing);
  EXPECT_NE(Health("no.such.Service"), kServing);
  server_->SetServing(false);
  EXPECT_EQ(Health(""), kNotServing);
  EXPECT_EQ(Health("scd.v1.Producer"), kNotServing);
}

TEST_F(GrpcServerTest, ReflectionListsTheServices) {
  Start();
  std::string response;
  const std::string list_services("\x3a\x00", 2);
  const grpc::Status status = testing::RawCall(
      channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", list_services, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response, HasSubstr("scd.v1.Producer"));
  EXPECT_THAT(response, HasSubstr("grpc.health.v1.Health"));
}

TEST_F(GrpcServerTest, MessagesOverTheLimitAreRefused) {
  GrpcServerOptions options;
  options.max_message_bytes = 4096;
  Start(options);
  std::string response;
  // An unknown field of 3 and of 8 KiB.
  const auto padded = [](std::size_t bytes) {
    return std::string("\xfa\x7f", 2) + static_cast<char>(0x80 | (bytes & 0x7f)) +
           static_cast<char>(bytes >> 7) + std::string(bytes, 'x');
  };
  EXPECT_TRUE(testing::RawCall(channel_, "/scd.v1.Producer/Info", padded(3000), &response).ok());
  EXPECT_EQ(testing::RawCall(channel_, "/scd.v1.Producer/Info", padded(8000), &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(GrpcServerTest, CompressedMessagesAreRefused) {
  Start();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::PrefillRequest request;
  request.set_request_id(std::string(1 << 20, 'x'));
  v1::PrefillResponse response;
  const auto reader = v1::Producer::NewStub(channel_)->Prefill(&context, request);
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_FALSE(service_.prefill_started.HasBeenNotified());
}

TEST_F(GrpcServerTest, APortInUseIsAnError) {
  Start();
  FakeService other;
  GrpcServerOptions options;
  options.listen = server_->address();
  const std::vector<NamedService> services = {{"scd.v1.Producer", &other}};
  const auto second = GrpcServer::Start(options, services);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server_->address().ToString()));
}

TEST_F(GrpcServerTest, TlsFilesAreNamedWhenTheyAreWrong) {
  const testing::TempDir dir;
  GrpcServerOptions options;
  options.listen = {"127.0.0.1", 0};
  options.tls = {dir.File("none.pem"), dir.File("key.pem"), ""};
  EXPECT_EQ(GrpcServer::Start(options, {}).status().code(), absl::StatusCode::kNotFound);
  testing::WriteFile(dir.File("none.pem"), "not a certificate");
  const auto server = GrpcServer::Start(options, {});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("none.pem"));
}

TEST_F(GrpcServerTest, ShutdownCancelsWhatOutlivesItsGrace) {
  Start();
  const auto stub = v1::Producer::NewStub(channel_);
  grpc::ClientContext context;
  const auto reader = stub->Prefill(&context, v1::PrefillRequest());
  service_.prefill_started.WaitForNotification();
  server_->Shutdown(absl::Milliseconds(1));
  v1::PrefillResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace scd
