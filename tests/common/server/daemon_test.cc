#include "common/server/daemon.h"

#include <csignal>
#include <filesystem>
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Its Prefill streams nothing until the daemon ends it, or the test lets it go.
class FakeDaemon : public Daemon {
 public:
  ProgramInfo program() const override { return {"scd-test", "Tests things."}; }
  DaemonConfig default_config() const override {
    DaemonConfig config;
    config.grpc.listen = {"127.0.0.1", 0};
    config.metrics_listen = HostPort{"127.0.0.1", 0};
    return config;
  }
  void Configure(YamlSection root) override {
    calls.push_back("configure");
    root.Int("number", &number, {.min = 0, .max = 9});
  }
  absl::Status OpenFiles() override {
    calls.push_back("open");
    return open_status;
  }
  absl::StatusOr<std::vector<NamedService>> Start(const DaemonContext& context) override {
    calls.push_back("start");
    if (!start_status.ok()) return start_status;
    service.requests = &context.requests;
    traced = context.traces != nullptr;
    if (traced) context.traces->Begin("a request");
    return std::vector<NamedService>{{"scd.v1.Producer", &service}};
  }
  std::string Summary() const override { return "a test"; }
  void CancelRequests() override {
    calls.push_back("cancel");
    service.End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the end"));
  }
  void Stop() override { calls.push_back("stop"); }

  class Service final : public v1::Producer::CallbackService {
   public:
    class Stream : public grpc::ServerWriteReactor<v1::PrefillResponse> {
     public:
      void OnDone() override { lease.Release(); }
      RequestTracker::Lease lease;
    };

    grpc::ServerWriteReactor<v1::PrefillResponse>* Prefill(grpc::CallbackServerContext* /*context*/,
                                                           const v1::PrefillRequest* /*request*/) override {
      auto lease = requests->Admit();
      if (!lease.ok()) {
        refused_stream_.Finish(
            grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(lease.status().message())));
        return &refused_stream_;
      }
      stream_.lease = *std::move(lease);
      started.Notify();
      return &stream_;
    }
    void End(const grpc::Status& status) { stream_.Finish(status); }

    RequestTracker* requests = nullptr;
    absl::Notification started;

   private:
    Stream stream_;
    Stream refused_stream_;
  };

  int number = 0;
  absl::Status open_status;
  absl::Status start_status;
  std::vector<std::string> calls;
  bool traced = false;
  Service service;
};

class DaemonTest : public ::testing::Test {
 protected:
  // Threads that gRPC keeps from one case to the next must not take the signals either.
  static void SetUpTestSuite() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  }

  int Run(const std::string& yaml, std::vector<std::string> more = {},
          const std::function<void(const DaemonAddresses&)>& on_serving = {}) {
    testing::WriteFile(dir_.File("c.yaml"), yaml);
    std::vector<std::string> arguments = {"scd-test", "--config", dir_.File("c.yaml")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    ::testing::internal::CaptureStderr();
    const int exit_code = RunDaemon(daemon_, static_cast<int>(argv.size()), argv.data(), on_serving);
    errors_ = ::testing::internal::GetCapturedStderr();
    return exit_code;
  }

  const testing::TempDir dir_;
  FakeDaemon daemon_;
  std::string errors_;
};

TEST_F(DaemonTest, CheckOpensTheFilesAndStartsNothing) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Run("number: 3\n", {"--check", "--set", "number=4"}), kExitOk);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("is good"));
  EXPECT_EQ(daemon_.number, 4);
  EXPECT_THAT(daemon_.calls, ElementsAre("configure", "open"));
}

TEST_F(DaemonTest, AWrongConfigurationEndsWithTwo) {
  EXPECT_EQ(Run("number: 10\n"), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("c.yaml:1: number: 10 is out of range; allowed: 0 to 9"));
  EXPECT_EQ(Run("nunber: 1\n"), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("did you mean number?"));
  EXPECT_EQ(Run("server: {listen: 3}\n"), kExitUsage);
  EXPECT_THAT(daemon_.calls, ElementsAre("configure", "configure", "configure"));
}

TEST_F(DaemonTest, FailuresEndWithOneAndTheirReason) {
  daemon_.open_status = absl::DataLossError("model.safetensors: is cut short");
  EXPECT_EQ(Run("number: 1\n"), kExitFailure);
  EXPECT_EQ(errors_, "scd-test: model.safetensors: is cut short\n");
  daemon_.open_status = absl::OkStatus();
  daemon_.start_status = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(Run("number: 1\n"), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr("scd-test: no memory\n"));
}

TEST_F(DaemonTest, TheFolderForTracesIsCheckedBeforeAnythingIsOpened) {
  const std::string missing = dir_.File("missing");
  EXPECT_EQ(Run("trace: {dir: " + missing + "}\n", {"--check"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr("scd-test: trace.dir: " + missing));
  EXPECT_EQ(Run("number: 1\n", {"--trace-dir", missing}), kExitFailure);
  EXPECT_THAT(daemon_.calls, ElementsAre("configure", "configure"));
  EXPECT_EQ(Run("trace: {max_files: 0}\n"), kExitUsage);
}

TEST_F(DaemonTest, TracesWhereToldTo) {
  const auto end = [](const DaemonAddresses&) { kill(getpid(), SIGTERM); };
  EXPECT_EQ(Run("number: 1\n", {}, end), kExitOk);
  EXPECT_FALSE(daemon_.traced);
  std::filesystem::create_directory(dir_.File("traces"));
  // The command line goes before the file.
  std::string metrics;
  EXPECT_EQ(Run("trace: {dir: /nowhere}\n", {"--trace-dir", dir_.File("traces")},
                [&](const DaemonAddresses& addresses) {
                  metrics = testing::HttpGet(addresses.metrics.port, "/metrics");
                  kill(getpid(), SIGTERM);
                }),
            kExitOk);
  EXPECT_TRUE(daemon_.traced);
  EXPECT_TRUE(std::filesystem::exists(dir_.File("traces/a_request.test.000001.json")));
  EXPECT_THAT(metrics, HasSubstr("scd_traces_lost_total 0"));
}

TEST_F(DaemonTest, APortInUseEndsWithOne) {
  FakeDaemon other;
  int code = -1;
  EXPECT_EQ(Run("number: 1\n", {},
                [&](const DaemonAddresses& addresses) {
                  testing::WriteFile(dir_.File("d.yaml"),
                                     "server: {listen: \"" + addresses.grpc.ToString() + "\"}\n");
                  const std::string path = dir_.File("d.yaml");
                  const char* argv[] = {"scd-test", "--config", path.c_str()};
                  code = RunDaemon(other, 3, argv);
                  kill(getpid(), SIGTERM);
                }),
            kExitOk);
  EXPECT_EQ(code, kExitFailure);
  EXPECT_THAT(errors_, HasSubstr("cannot listen on 127.0.0.1:"));
  EXPECT_THAT(other.calls, ElementsAre("configure", "open", "start", "stop"));
}

TEST_F(DaemonTest, ServesUntilASignalAndLetsRequestsEnd) {
  std::jthread client;
  grpc::Status late_status;
  grpc::Status first_status;
  std::string metrics;
  const auto on_serving = [&](const DaemonAddresses& addresses) {
    client = std::jthread([&, addresses] {
      const auto stub = v1::Producer::NewStub(testing::LoopbackChannel(addresses.grpc.port));
      grpc::ClientContext context;
      const auto reader = stub->Prefill(&context, v1::PrefillRequest());
      daemon_.service.started.WaitForNotification();
      metrics = testing::HttpGet(addresses.metrics.port, "/metrics");
      kill(getpid(), SIGTERM);
      // Until the drain has begun a second stream would be taken; health says when.
      std::string health;
      const auto channel = testing::LoopbackChannel(addresses.grpc.port);
      while (health != std::string("\x08\x02", 2)) {
        ASSERT_TRUE(testing::RawCall(channel, "/grpc.health.v1.Health/Check", "", &health).ok());
      }
      while (daemon_.service.requests->Admit().ok()) std::this_thread::yield();
      grpc::ClientContext late_context;
      late_status = stub->Prefill(&late_context, v1::PrefillRequest())->Finish();
      daemon_.service.End(grpc::Status::OK);
      first_status = reader->Finish();
    });
  };
  EXPECT_EQ(Run("number: 1\n", {}, on_serving), kExitOk);
  client.join();
  EXPECT_TRUE(first_status.ok()) << first_status.error_message();
  EXPECT_EQ(late_status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(late_status.error_message(), "the server is shutting down");
  EXPECT_THAT(metrics, HasSubstr("scd_requests_in_flight 1"));
  EXPECT_THAT(metrics, HasSubstr("scd_build_info{program=\"scd-test\""));
  EXPECT_THAT(errors_, HasSubstr("listens on 127.0.0.1:"));
  EXPECT_THAT(errors_, HasSubstr(": a test\n"));
  EXPECT_THAT(errors_, HasSubstr("scd-test ended"));
  EXPECT_THAT(daemon_.calls, ElementsAre("configure", "open", "start", "stop"));
}

TEST_F(DaemonTest, RequestsThatOutliveTheGraceAreCancelled) {
  std::jthread client;
  grpc::Status status;
  const auto on_serving = [&](const DaemonAddresses& addresses) {
    client = std::jthread([&, addresses] {
      const auto stub = v1::Producer::NewStub(testing::LoopbackChannel(addresses.grpc.port));
      grpc::ClientContext context;
      const auto reader = stub->Prefill(&context, v1::PrefillRequest());
      daemon_.service.started.WaitForNotification();
      kill(getpid(), SIGINT);
      status = reader->Finish();
    });
  };
  EXPECT_EQ(Run("server: {shutdown_grace_seconds: 0}\n", {}, on_serving), kExitOk);
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the end");
  EXPECT_THAT(daemon_.calls, ElementsAre("configure", "open", "start", "cancel", "stop"));
}

TEST_F(DaemonTest, ASecondSignalEndsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::jthread client;
  const auto on_serving = [&](const DaemonAddresses& addresses) {
    client = std::jthread([&, addresses] {
      const auto stub = v1::Producer::NewStub(testing::LoopbackChannel(addresses.grpc.port));
      grpc::ClientContext context;
      const auto reader = stub->Prefill(&context, v1::PrefillRequest());
      daemon_.service.started.WaitForNotification();
      kill(getpid(), SIGTERM);
      while (daemon_.service.requests->Admit().ok()) std::this_thread::yield();
      kill(getpid(), SIGTERM);
      reader->Finish();
    });
  };
  EXPECT_EXIT(Run("number: 1\n", {}, on_serving), ::testing::ExitedWithCode(kExitFailure), "");
}

}  // namespace
}  // namespace scd
