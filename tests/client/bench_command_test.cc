// scd-client bench as a whole, against a service of the test's own.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "client/commands.h"
#include "nlohmann/json.hpp"
#include "scd/v1/consumer.grpc.pb.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CountingConsumer final : public v1::Consumer::Service {
 public:
  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    {
      const std::lock_guard lock(mutex);
      requests.push_back(*request);
      if (requests.size() == refused) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    }
    for (std::uint32_t i = 0; i < request->max_tokens(); ++i) {
      v1::GenerateResponse token;
      token.mutable_token()->set_id(1);
      writer->Write(token);
    }
    v1::GenerateResponse last;
    v1::TransferReport& report = *last.mutable_done()->mutable_report();
    report.set_mode("scd");
    report.set_prompt_tokens(static_cast<std::uint32_t>(request->prompt().tokens().ids_size()));
    writer->Write(last);
    return grpc::Status::OK;
  }
  grpc::Status Info(grpc::ServerContext*, const v1::ConsumerInfoRequest*, v1::ConsumerInfo* info) override {
    info->mutable_model()->set_vocab_size(1000);
    info->mutable_model()->set_description("the expert");
    return grpc::Status::OK;
  }

  std::size_t refused = 0;
  std::mutex mutex;
  std::vector<v1::GenerateRequest> requests;
};

class BenchCommandTest : public ::testing::Test {
 protected:
  BenchCommandTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&consumer_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  ExitCode Bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "--address", address_});
    std::istringstream in;
    std::ostringstream out, err;
    const ExitCode code = RunClient(arguments, {in, out, err, {}});
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  CountingConsumer consumer_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::string out_, err_;
};

TEST_F(BenchCommandTest, SweepsAndWritesItsFigures) {
  const testing::TempDir folder;
  const std::string path = folder.File("load.json");
  ASSERT_EQ(Bench({"--concurrency",
                   "1,3",
                   "--requests",
                   "6",
                   "--prompt-tokens",
                   "20",
                   "-n",
                   "4",
                   "--warmup",
                   "2",
                   "--mode",
                   "scd",
                   "--policy",
                   "require",
                   "--native-tail",
                   "8",
                   "--request-id",
                   "load",
                   "--json",
                   path}),
            ExitCode::kOk)
      << err_;
  for (const char* part : {"made-up prompts of 20 tokens", "concurrency 1: 6 requests",
                           "concurrency 3: 6 requests", "TTFT", "inter-token", "120 tokens: ", "TTFT p99"}) {
    EXPECT_THAT(out_, HasSubstr(part));
  }
  const json document = json::parse(testing::ReadFile(path));
  EXPECT_EQ(document["schema"], "scd-client-bench-1");
  EXPECT_EQ(document["consumer"]["model"]["description"], "the expert");
  EXPECT_EQ(document["warmup"]["requests_ok"], 2);
  EXPECT_EQ(document["interrupted"], false);
  ASSERT_EQ(document["levels"].size(), 2u);
  EXPECT_EQ(document["levels"][1]["concurrency"], 3);
  EXPECT_EQ(document["levels"][1]["output_tokens"], 24);
  EXPECT_EQ(document["levels"][1]["prompt_tokens"]["all"], 120);

  ASSERT_EQ(consumer_.requests.size(), 14u);
  std::set<std::string> prompts, names;
  for (const v1::GenerateRequest& request : consumer_.requests) {
    prompts.insert(request.prompt().SerializeAsString());
    names.insert(request.request_id());
    EXPECT_EQ(request.max_tokens(), 4u);
    EXPECT_TRUE(request.ignore_eos());
    EXPECT_EQ(request.transfer().mode(), "scd");
    EXPECT_EQ(request.transfer().policy(), v1::POLICY_REQUIRE);
    EXPECT_EQ(request.transfer().plan().native_tail(), 8u);
  }
  EXPECT_EQ(prompts.size(), 14u);
  EXPECT_EQ(names.size(), 14u);
  EXPECT_EQ(names.count("load-2-6"), 1u);
}

TEST_F(BenchCommandTest, AnOpenLoopWithASharedPrefix) {
  ASSERT_EQ(Bench({"--rate", "200", "--requests", "8", "--shared-prefix-tokens", "30", "--questions", "4",
                   "--question-tokens", "2", "-n", "1", "--warmup", "0", "--stop-at-eos", "--json", "-"}),
            ExitCode::kOk)
      << err_;
  const json document = json::parse(out_);
  EXPECT_EQ(document["levels"][0]["loop"], "open");
  EXPECT_EQ(document["levels"][0]["rate_per_s"], 200.0);
  EXPECT_EQ(document["levels"][0]["requests_ok"], 8);
  EXPECT_EQ(document["workload"]["questions"], 4);
  std::set<std::string> prompts;
  for (const v1::GenerateRequest& request : consumer_.requests) {
    prompts.insert(request.prompt().SerializeAsString());
    EXPECT_EQ(request.prompt().tokens().ids_size(), 32);
    EXPECT_FALSE(request.ignore_eos());
  }
  EXPECT_EQ(prompts.size(), 4u);
}

TEST_F(BenchCommandTest, AFailedRequestIsAFailedRun) {
  consumer_.refused = 3;
  EXPECT_EQ(Bench({"--requests", "5", "-n", "1", "--prompt-tokens", "8", "--warmup", "1"}),
            ExitCode::kRequestFailed);
  EXPECT_THAT(out_, HasSubstr("4 requests in"));
  EXPECT_THAT(out_, HasSubstr("unavailable 1: not now"));
  EXPECT_THAT(err_, HasSubstr("1 requests failed"));
}

TEST_F(BenchCommandTest, AFailureInTheWarmUpIsNotHidden) {
  consumer_.refused = 1;
  EXPECT_EQ(Bench({"--requests", "2", "-n", "1", "--prompt-tokens", "8", "--warmup", "2"}),
            ExitCode::kRequestFailed);
  EXPECT_THAT(out_, HasSubstr("warm-up: "));
  EXPECT_THAT(out_, HasSubstr("concurrency 1: 2 requests"));
}

TEST_F(BenchCommandTest, AWarmUpThatFailsWholeEndsTheRun) {
  const testing::TempDir folder;
  const std::string path = folder.File("load.json");
  consumer_.refused = 1;
  EXPECT_EQ(Bench({"--requests", "2", "-n", "1", "--prompt-tokens", "8", "--warmup", "1", "--json", path}),
            ExitCode::kRequestFailed);
  EXPECT_THAT(err_, HasSubstr("the warm-up failed: unavailable: not now"));
  EXPECT_EQ(consumer_.requests.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing was measured";
}

TEST_F(BenchCommandTest, AFileThatCannotBeWrittenIsNamedBeforeTheLoad) {
  const testing::TempDir folder;
  std::vector<std::string> paths = {"/no/such/folder/load.json", folder.path()};
  if (std::filesystem::exists("/dev/full")) paths.push_back("/dev/full");
  for (const std::string& path : paths) {
    EXPECT_EQ(Bench({"--requests", "1", "-n", "1", "--json=" + path}), ExitCode::kRequestFailed) << path;
    EXPECT_THAT(err_, HasSubstr(path + ": cannot be written: "));
  }
  EXPECT_TRUE(consumer_.requests.empty());
}

TEST_F(BenchCommandTest, AnOldFileStaysUntilThereAreFigures) {
  const testing::TempDir folder;
  const std::string path = folder.File("load.json");
  const std::string old = "[" + std::string(100000, ' ') + "1]";
  testing::WriteFile(path, old);
  consumer_.refused = 1;
  const std::vector<std::string> arguments = {"--requests", "1",        "-n", "1",      "--prompt-tokens",
                                              "8",          "--warmup", "1",  "--json", path};
  EXPECT_EQ(Bench(arguments), ExitCode::kRequestFailed);
  EXPECT_EQ(testing::ReadFile(path), old);
  EXPECT_EQ(Bench(arguments), ExitCode::kOk) << err_;
  EXPECT_EQ(json::parse(testing::ReadFile(path))["warmup"]["requests_ok"], 1);
}

TEST_F(BenchCommandTest, WrongUsageAndFiles) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--rate", "1", "--concurrency", "2"},
        {"--rate", "0"},
        {"--concurrency", "0"},
        {"--requests", "0"},
        {"--rate", "nan"},
        {"--rate", "1,inf"},
        {"--duration-s", "nan"},
        {"--deadline-ms", "nan"},
        {"--connect-timeout-ms", "nan"},
        {"--concurrency", "1,,2"},
        {"--concurrency=1,2,"},
        {"--prompt-tokens", ""},
        {"--rate", "1", ",2"},
        {"--seed", "-1"},
        {"--seed", "18446744073709551616"},
        {"--questions", "3"},
        {"--prompt-tokens", "5", "--shared-prefix-tokens", "5"},
        {"--prompt-tokens", "5", "--prompts-file", "a"}}) {
    EXPECT_EQ(Bench(arguments), ExitCode::kUsage) << ::testing::PrintToString(arguments);
  }
  EXPECT_EQ(Bench({"--prompts-file", "/no/such.jsonl"}), ExitCode::kRequestFailed);
  EXPECT_THAT(err_, HasSubstr("/no/such.jsonl: cannot be opened"));
}

}  // namespace
}  // namespace scd
