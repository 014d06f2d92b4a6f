// Loads on a service of the test's own, on loopback.
#include "client/bench/load_runner.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "client/bench/arrivals.h"

namespace scd {
namespace {

using std::chrono::milliseconds;

// Two tokens, each after `pause`; requests whose id ends with `failing` are refused.
class SlowConsumer final : public v1::Consumer::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    {
      const std::lock_guard lock(mutex);
      ids.insert(request->request_id());
      most_at_once = std::max(most_at_once, ++now);
    }
    const grpc::Status status = Answer(context, *request, writer);
    const std::lock_guard lock(mutex);
    --now;
    return status;
  }

  std::atomic<milliseconds> pause{milliseconds(5)};
  std::string failing = "none";
  std::mutex mutex;
  std::multiset<std::string> ids;
  int now = 0;
  int most_at_once = 0;

 private:
  grpc::Status Answer(grpc::ServerContext* context, const v1::GenerateRequest& request,
                      grpc::ServerWriter<v1::GenerateResponse>* writer) const {
    if (request.request_id() == failing) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"};
    for (int i = 0; i < 2; ++i) {
      const auto until = std::chrono::steady_clock::now() + pause.load();
      while (std::chrono::steady_clock::now() < until) {
        if (context->IsCancelled()) return grpc::Status::CANCELLED;
        std::this_thread::sleep_for(milliseconds(1));
      }
      v1::GenerateResponse token;
      token.mutable_token()->set_id(i);
      writer->Write(token);
    }
    v1::GenerateResponse last;
    last.mutable_done()->mutable_report()->set_mode("scd");
    last.mutable_done()->mutable_report()->set_prompt_tokens(10);
    writer->Write(last);
    return grpc::Status::OK;
  }
};

class LoadRunnerTest : public ::testing::Test {
 protected:
  LoadRunnerTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&consumer_);
    server_ = builder.BuildAndStart();
    target_.address = "127.0.0.1:" + std::to_string(port);
    target_.channels = 2;
  }

  static v1::GenerateRequest Numbered(std::uint64_t index) {
    v1::GenerateRequest request;
    request.set_request_id(std::to_string(index));
    return request;
  }
  static void NoProgress(std::int64_t, double) {}

  SlowConsumer consumer_;
  std::unique_ptr<grpc::Server> server_;
  LoadRunner::Target target_;
};

TEST_F(LoadRunnerTest, AClosedLoopKeepsItsConcurrency) {
  LoadRunner runner(target_, {});
  const LevelResult level = runner.RunClosed(4, {.requests = 23}, Numbered, NoProgress);
  EXPECT_EQ(level.num_ok, 23);
  EXPECT_EQ(level.num_failed(), 0);
  EXPECT_EQ(level.concurrency, 4u);
  EXPECT_EQ(level.most_in_flight, 4);
  EXPECT_LE(consumer_.most_at_once, 4);
  EXPECT_EQ(consumer_.ids.size(), 23u);
  for (int i = 0; i < 23; ++i) EXPECT_EQ(consumer_.ids.count(std::to_string(i)), 1u) << i;
  EXPECT_EQ(level.output_tokens, 46u);
  EXPECT_EQ(level.prompt_tokens, 230u);
  EXPECT_GE(level.ttft_ms.Percentile(0), 5.0);
  EXPECT_GE(level.end_to_end_ms.Percentile(0), 10.0);
}

TEST_F(LoadRunnerTest, FewerRequestsThanTheConcurrency) {
  LoadRunner runner(target_, {});
  EXPECT_EQ(runner.RunClosed(8, {.requests = 3}, Numbered, NoProgress).num_ok, 3);
}

TEST_F(LoadRunnerTest, ALevelEndsWithItsLastRequest) {
  LoadRunner runner(target_, {});
  std::int64_t told = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 30; ++i) {
    runner.RunClosed(1, {.requests = 1}, Numbered, [&told](std::int64_t ended, double) { told += ended; });
  }
  // Not with the next progress, every 0.1 s, which is told at once instead.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(3000));
  EXPECT_GE(told, 30);
}

TEST_F(LoadRunnerTest, ADurationEndsAClosedLoop) {
  LoadRunner runner(target_, {});
  const LevelResult level = runner.RunClosed(2, {.duration = absl::Milliseconds(200)}, Numbered, NoProgress);
  EXPECT_GT(level.num_ok, 2);
  EXPECT_GE(level.seconds, 0.2);
  EXPECT_EQ(level.num_failed(), 0) << "what has started is waited for";
}

TEST_F(LoadRunnerTest, FailuresAreCountedAndTheLoopGoesOn) {
  consumer_.failing = "3";
  LoadRunner runner(target_, {});
  const LevelResult level = runner.RunClosed(2, {.requests = 10}, Numbered, NoProgress);
  EXPECT_EQ(level.num_ok, 9);
  ASSERT_EQ(level.errors.count("resource_exhausted"), 1u);
  EXPECT_EQ(level.errors.at("resource_exhausted").count, 1);
  EXPECT_EQ(level.errors.at("resource_exhausted").first_message, "no room");
}

// Each of the two clients pauses 0.1 s, then 0.2 s, then 0.4 s.
TEST_F(LoadRunnerTest, AClosedLoopPausesAfterFailures) {
  server_->Shutdown(std::chrono::system_clock::now());
  LoadRunner runner(target_, {});
  const LevelResult level = runner.RunClosed(2, {.duration = absl::Milliseconds(600)}, Numbered, NoProgress);
  EXPECT_EQ(level.num_ok, 0);
  EXPECT_GE(level.num_failed(), 2);
  EXPECT_LE(level.num_failed(), 6);
}

TEST_F(LoadRunnerTest, ASuccessEndsThePauses) {
  consumer_.pause = milliseconds(0);
  consumer_.failing = "0";
  LoadRunner runner(target_, {});
  const LevelResult level = runner.RunClosed(1, {.requests = 40}, Numbered, NoProgress);
  EXPECT_EQ(level.num_ok, 39);
  EXPECT_GE(level.seconds, 0.1);
  EXPECT_LT(level.seconds, 3.0) << "39 pauses of 0.1 s are longer";
}

TEST_F(LoadRunnerTest, AnInterruptEndsAPause) {
  server_->Shutdown(std::chrono::system_clock::now());
  std::stop_source stop;
  std::jthread interrupt([&] {
    std::this_thread::sleep_for(milliseconds(400));
    stop.request_stop();
  });
  LoadRunner runner(target_, stop.get_token());
  const LevelResult level = runner.RunClosed(3, {.requests = 1000000}, Numbered, NoProgress);
  EXPECT_TRUE(level.interrupted);
  EXPECT_EQ(level.num_ok, 0);
  EXPECT_LT(level.num_failed(), 20);
}

TEST_F(LoadRunnerTest, SlowAnswersDoNotHoldAnOpenLoopBack) {
  consumer_.pause = milliseconds(400);
  LoadRunner runner(target_, {});
  constexpr double kRate = 50;
  constexpr std::uint64_t kSeed = 7;
  const LevelResult level = runner.RunOpen(kRate, kSeed, {.requests = 12}, Numbered, NoProgress);
  EXPECT_EQ(level.num_ok, 12);
  PoissonArrivals arrivals(kRate, kSeed);
  double last = 0;
  for (int i = 0; i < 12; ++i) last = arrivals.NextSeconds();
  ASSERT_LT(last, 0.7);
  // One after the other they would take 9.6 s.
  EXPECT_LT(level.seconds, last + 3.0);
  EXPECT_GT(level.most_in_flight, 6);
  EXPECT_LT(level.start_delay_ms.Percentile(50), 100.0);
}

TEST_F(LoadRunnerTest, ADurationEndsAnOpenLoop) {
  LoadRunner runner(target_, {});
  const LevelResult level =
      runner.RunOpen(100, 1, {.duration = absl::Milliseconds(300)}, Numbered, NoProgress);
  PoissonArrivals arrivals(100, 1);
  std::int64_t due = 0;
  while (arrivals.NextSeconds() < 0.3) ++due;
  EXPECT_EQ(level.num_ok, due);
  EXPECT_DOUBLE_EQ(level.rate_per_s, 100);
}

TEST_F(LoadRunnerTest, AnInterruptCancelsWhatIsInFlight) {
  consumer_.pause = milliseconds(20000);
  std::stop_source stop;
  std::jthread interrupt([&] {
    for (;;) {
      std::this_thread::sleep_for(milliseconds(2));
      const std::lock_guard lock(consumer_.mutex);
      if (consumer_.now == 3) break;
    }
    stop.request_stop();
  });
  LoadRunner runner(target_, stop.get_token());
  const LevelResult level = runner.RunClosed(3, {.requests = 100}, Numbered, NoProgress);
  EXPECT_TRUE(level.interrupted);
  EXPECT_EQ(level.num_ok, 0);
  ASSERT_EQ(level.errors.count("cancelled"), 1u);
  EXPECT_EQ(level.errors.at("cancelled").count, 3);
  EXPECT_LT(level.seconds, 10.0);
}

TEST_F(LoadRunnerTest, ADeadlineEndsARequest) {
  consumer_.pause = milliseconds(20000);
  target_.deadline = absl::Milliseconds(100);
  LoadRunner runner(target_, {});
  const LevelResult level = runner.RunClosed(1, {.requests = 2}, Numbered, NoProgress);
  ASSERT_EQ(level.errors.count("deadline_exceeded"), 1u);
  EXPECT_EQ(level.errors.at("deadline_exceeded").count, 2);
}

TEST_F(LoadRunnerTest, TellsHowFarItIs) {
  LoadRunner runner(target_, {});
  std::int64_t most = -1;
  double seconds = 0;
  runner.RunClosed(1, {.duration = absl::Milliseconds(500)}, Numbered, [&](std::int64_t ended, double at) {
    EXPECT_GE(ended, most);
    most = ended;
    seconds = at;
  });
  EXPECT_GT(most, 0);
  EXPECT_GE(seconds, 0.3);
}

}  // namespace
}  // namespace scd
