// The whole client against services of its own on loopback.
#include <gmock/gmock.h>
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/commands.h"
#include "nlohmann/json.hpp"
#include "scd/v1/consumer.grpc.pb.h"
#include "scd/v1/producer.grpc.pb.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Answers with three pieces and a report, unless `generate` is set.
class FakeConsumer final : public v1::Consumer::Service {
 public:
  using Writer = grpc::ServerWriter<v1::GenerateResponse>;

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        Writer* writer) override {
    {
      const std::lock_guard lock(mutex);
      requests.push_back(*request);
    }
    if (generate) return generate(context, *request, writer);
    return Answer(*request, writer);
  }

  static grpc::Status Answer(const v1::GenerateRequest& request, Writer* writer) {
    for (const char* text : {"Mary", "", " Ash"}) {
      v1::GenerateResponse response;
      response.mutable_token()->set_id(7);
      response.mutable_token()->set_text(text);
      response.mutable_token()->set_logprob(-0.5f);
      writer->Write(response);
    }
    v1::GenerateResponse last;
    v1::GenerateDone& done = *last.mutable_done();
    done.set_text("combe");
    done.set_num_tokens(3);
    done.set_finish_reason(v1::FINISH_REASON_STOP_TOKEN);
    const bool local = request.transfer().mode() == "local";
    v1::TransferReport& report = *done.mutable_report();
    report.set_mode(local ? "local" : "scd");
    report.set_prompt_tokens(400);
    report.set_transferred_tokens(local ? 0 : 382);
    report.set_computed_tokens(local ? 400 : 18);
    report.set_stored_tokens(local || request.transfer().no_code_store() ? 0 : 320);
    report.set_received_bytes(local ? 0 : 1 << 20);
    report.set_code_bytes(local ? 0 : 1000 << 10);
    report.set_raw_kv_bytes(8 << 20);
    report.set_first_token_ms(local ? 900 : request.transfer().no_code_store() ? 450 : 80);
    report.set_total_ms(1000);
    writer->Write(last);
    return grpc::Status::OK;
  }

  grpc::Status Score(grpc::ServerContext*, const v1::ScoreRequest* request,
                     v1::ScoreResponse* response) override {
    score_request = *request;
    for (const double logprob : {-1.0, -2.0, 0.0}) {
      v1::PositionScore* position = response->add_positions();
      position->set_token_id(11);
      position->set_logprob(logprob);
      position->set_kl(0.03);
      position->set_tv(0.3);
      position->set_native_logprob(logprob / 2);
    }
    response->mutable_report()->set_mode("local");
    response->mutable_report()->set_reason("short_prompt");
    return grpc::Status::OK;
  }

  grpc::Status Info(grpc::ServerContext*, const v1::ConsumerInfoRequest*, v1::ConsumerInfo* info) override {
    info->set_version("0.1.0");
    info->mutable_model()->set_description("the expert");
    info->mutable_model()->set_digest(std::string(16, '\xAB'));
    info->set_default_policy(v1::POLICY_PREFER);
    info->set_plan("reuse 24 layers");
    return grpc::Status::OK;
  }

  std::function<grpc::Status(grpc::ServerContext*, const v1::GenerateRequest&, Writer*)> generate;
  std::mutex mutex;
  std::vector<v1::GenerateRequest> requests;
  v1::ScoreRequest score_request;
};

class FakeProducer final : public v1::Producer::Service {
 public:
  grpc::Status Info(grpc::ServerContext*, const v1::ProducerInfoRequest*, v1::ProducerInfo* info) override {
    info->mutable_model()->set_description("the base");
    info->add_bundles()->set_path("bundles/one");
    info->set_prefilled_tokens(1234);
    v1::CodeStoreTier& disk = *info->add_code_store_tiers();
    disk.set_tier("disk");
    disk.set_place("/codes");
    disk.set_blocks(12);
    disk.set_bytes(3 << 20);
    disk.set_capacity_bytes(8 << 20);
    disk.set_hits(5);
    disk.set_dropped_corrupt(2);
    return grpc::Status::OK;
  }
};

struct Outcome {
  ExitCode code;
  std::string out;
  std::string err;
};

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&consumer_);
    builder.RegisterService(&producer_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~ClientTest() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
    server_->Wait();
  }

  Outcome Client(std::vector<std::string> arguments, const std::string& input = "",
                 std::stop_token stop = {}) {
    arguments.insert(arguments.end(), {"--address", address_});
    return ClientAlone(arguments, input, std::move(stop));
  }
  static Outcome ClientAlone(const std::vector<std::string>& arguments, const std::string& input = "",
                             std::stop_token stop = {}) {
    std::istringstream in(input);
    std::ostringstream out, err;
    const ExitCode code = RunClient(arguments, {in, out, err, std::move(stop)});
    return {code, out.str(), err.str()};
  }

  FakeConsumer consumer_;
  FakeProducer producer_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// An address where nothing listens: a port that was free a moment ago.
std::string DeadAddress() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  FakeConsumer service;
  builder.RegisterService(&service);
  builder.BuildAndStart()->Shutdown();
  return "127.0.0.1:" + std::to_string(port);
}

TEST_F(ClientTest, GenerateStreamsTheAnswerAndReportsWhatHappened) {
  const Outcome run = Client({"generate", "--prompt", "Who?", "--mode", "scd"});
  EXPECT_EQ(run.code, ExitCode::kOk) << run.err;
  EXPECT_EQ(run.out, "Mary Ashcombe\n");
  for (const char* part :
       {"mode      scd", "382 transferred", "18 computed", "0 cached", "1.00 MiB", "8.00 MiB",
        "8.0 times as much", "first token after 80.0 ms", "ended by stop_token"}) {
    EXPECT_THAT(run.err, HasSubstr(part));
  }
  EXPECT_EQ(Client({"generate", "-p", "Who?", "--quiet"}).err, "");
}

TEST_F(ClientTest, GenerateSendsEveryOption) {
  const Outcome run = Client({"generate",
                              "--prompt",
                              "Who?",
                              "--special",
                              "--max-tokens",
                              "5",
                              "--temperature",
                              "0.5",
                              "--top-k",
                              "3",
                              "--top-p",
                              "0.9",
                              "--min-p",
                              "0.1",
                              "--seed",
                              "42",
                              "--stop",
                              "\n",
                              "--stop",
                              "END",
                              "--stop-ids",
                              "1,2",
                              "--ignore-eos",
                              "--logprobs",
                              "4",
                              "--policy",
                              "require",
                              "--mode",
                              "scd",
                              "--fresh",
                              "--no-prefix-cache",
                              "--rank-k",
                              "64",
                              "--patch-layers",
                              "3,17",
                              "--native-head",
                              "0",
                              "--native-tail",
                              "8",
                              "--transfer-timeout-ms",
                              "700",
                              "--request-id",
                              "r1",
                              "--repetition-penalty",
                              "1.1"});
  ASSERT_EQ(run.code, ExitCode::kOk) << run.err;
  ASSERT_EQ(consumer_.requests.size(), 1u);
  const v1::GenerateRequest& request = consumer_.requests[0];
  EXPECT_EQ(request.prompt().text(), "Who?");
  EXPECT_TRUE(request.prompt().allow_special_tokens());
  EXPECT_EQ(request.max_tokens(), 5u);
  EXPECT_FLOAT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_k(), 3u);
  EXPECT_FLOAT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_FLOAT_EQ(request.sampling().min_p(), 0.1f);
  EXPECT_FLOAT_EQ(request.sampling().repetition_penalty(), 1.1f);
  EXPECT_EQ(request.sampling().seed(), 42u);
  EXPECT_THAT(request.stop(), ElementsAre("\n", "END"));
  EXPECT_THAT(request.stop_token_ids(), ElementsAre(1, 2));
  EXPECT_TRUE(request.ignore_eos());
  EXPECT_EQ(request.top_logprobs(), 4u);
  EXPECT_EQ(request.transfer().policy(), v1::POLICY_REQUIRE);
  EXPECT_EQ(request.transfer().mode(), "scd");
  EXPECT_TRUE(request.transfer().no_code_store());
  EXPECT_TRUE(request.transfer().no_prefix_cache());
  EXPECT_EQ(request.transfer().timeout_ms(), 700u);
  EXPECT_EQ(request.transfer().plan().rank_k(), 64u);
  EXPECT_FALSE(request.transfer().plan().has_rank_v());
  EXPECT_THAT(request.transfer().plan().patch_layers().layers(), ElementsAre(3, 17));
  EXPECT_TRUE(request.transfer().plan().has_native_head());
  EXPECT_EQ(request.transfer().plan().native_head(), 0u);
  EXPECT_EQ(request.transfer().plan().native_tail(), 8u);
  EXPECT_EQ(request.request_id(), "r1");
}

TEST_F(ClientTest, GenerateAsksForACodecAndItsDistortion) {
  const Outcome run =
      Client({"generate", "--ids", "5", "--mode", "fused", "--codec", "entropy", "--distortion", "0.02"});
  ASSERT_EQ(run.code, ExitCode::kOk) << run.err;
  ASSERT_EQ(consumer_.requests.size(), 1u);
  const v1::Transfer& transfer = consumer_.requests[0].transfer();
  EXPECT_EQ(transfer.mode(), "fused");
  EXPECT_EQ(transfer.plan().codec(), v1::CODEC_ENTROPY);
  EXPECT_EQ(transfer.plan().distortion(), 0.02);
  for (const char* wrong : {"nan", "-1", "inf", "fine"}) {
    EXPECT_EQ(Client({"generate", "--ids", "5", "--distortion", wrong}).code, ExitCode::kUsage) << wrong;
  }
}

TEST_F(ClientTest, GenerateLeavesTheRestToTheServer) {
  ASSERT_EQ(Client({"generate", "--ids", "5,6,7"}).code, ExitCode::kOk);
  ASSERT_EQ(Client({"generate", "--prompt", "a", "--no-patch"}).code, ExitCode::kOk);
  ASSERT_EQ(consumer_.requests.size(), 2u);
  const v1::GenerateRequest& request = consumer_.requests[0];
  EXPECT_THAT(request.prompt().tokens().ids(), ElementsAre(5, 6, 7));
  EXPECT_EQ(request.transfer().policy(), v1::POLICY_UNSPECIFIED);
  EXPECT_EQ(request.transfer().mode(), "");
  EXPECT_FALSE(request.transfer().has_plan());
  EXPECT_FALSE(request.sampling().has_top_p());
  EXPECT_TRUE(consumer_.requests[1].transfer().plan().has_patch_layers());
  EXPECT_EQ(consumer_.requests[1].transfer().plan().patch_layers().layers_size(), 0);
}

TEST_F(ClientTest, GenerateTakesPromptsFromFilesAndChats) {
  const testing::TempDir folder;
  testing::WriteFile(folder.File("prompt.txt"), "line 1\nline 2\n");
  ASSERT_EQ(Client({"generate", "--prompt-file", folder.File("prompt.txt")}).code, ExitCode::kOk);
  ASSERT_EQ(Client({"generate", "--prompt-file", "-"}, "from input").code, ExitCode::kOk);
  ASSERT_EQ(Client({"generate", "--chat", "system=Be brief", "--chat", "user=a=b?"}).code, ExitCode::kOk);
  ASSERT_EQ(consumer_.requests.size(), 3u);
  EXPECT_EQ(consumer_.requests[0].prompt().text(), "line 1\nline 2\n");
  EXPECT_EQ(consumer_.requests[1].prompt().text(), "from input");
  const v1::Chat& chat = consumer_.requests[2].prompt().chat();
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(1).content(), "a=b?");

  const Outcome missing = Client({"generate", "--prompt-file", folder.File("no.txt")});
  EXPECT_EQ(missing.code, ExitCode::kRequestFailed);
  EXPECT_THAT(missing.err, HasSubstr("no.txt: cannot be opened"));
  const Outcome wrong = Client({"generate", "--chat", "hello"});
  EXPECT_EQ(wrong.code, ExitCode::kRequestFailed);
  EXPECT_THAT(wrong.err, HasSubstr("role=content"));
}

TEST_F(ClientTest, GenerateWritesOneJsonDocument) {
  const Outcome run = Client({"generate", "--prompt", "Who?", "--json"});
  ASSERT_EQ(run.code, ExitCode::kOk) << run.err;
  const json document = json::parse(run.out);
  EXPECT_EQ(document["text"], "Mary Ashcombe");
  EXPECT_EQ(document["tokens"].size(), 3u);
  EXPECT_EQ(document["tokens"][0]["id"], 7);
  EXPECT_EQ(document["finish_reason"], "stop_token");
  EXPECT_EQ(document["report"]["transferred_tokens"], 382);
  EXPECT_EQ(document["report"]["raw_kv_bytes"], 8 << 20);
  EXPECT_EQ(run.err, "");
}

TEST_F(ClientTest, GenerateSaysWhyTheServerRefused) {
  consumer_.generate = [](grpc::ServerContext*, const v1::GenerateRequest&, FakeConsumer::Writer*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the producer at 127.0.0.1:1 does not answer");
  };
  const Outcome run = Client({"generate", "--prompt", "a"});
  EXPECT_EQ(run.code, ExitCode::kRequestFailed);
  EXPECT_THAT(run.err, HasSubstr("UNAVAILABLE: the producer at 127.0.0.1:1 does not answer"));
}

TEST_F(ClientTest, GenerateRefusesAnAnswerWithoutItsEnd) {
  consumer_.generate = [](grpc::ServerContext*, const v1::GenerateRequest&, FakeConsumer::Writer* writer) {
    v1::GenerateResponse response;
    response.mutable_token()->set_text("half");
    writer->Write(response);
    return grpc::Status::OK;
  };
  const Outcome run = Client({"generate", "--prompt", "a"});
  EXPECT_EQ(run.code, ExitCode::kRequestFailed);
  EXPECT_EQ(run.out, "half\n");
  EXPECT_THAT(run.err, HasSubstr("without its last message"));
}

// A server that writes one piece and then waits until it is cancelled.
class Hanging {
 public:
  grpc::Status operator()(grpc::ServerContext* context, FakeConsumer::Writer* writer) {
    v1::GenerateResponse response;
    response.mutable_token()->set_text("one");
    writer->Write(response);
    started = true;
    for (int i = 0; i < 2000 && !context->IsCancelled(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancelled = context->IsCancelled();
    return grpc::Status::CANCELLED;
  }
  std::atomic<bool> started = false;
  std::atomic<bool> cancelled = false;
};

TEST_F(ClientTest, AnInterruptCancelsTheRequestOnTheServer) {
  Hanging hanging;
  consumer_.generate = [&](grpc::ServerContext* context, const v1::GenerateRequest&,
                           FakeConsumer::Writer* writer) { return hanging(context, writer); };
  std::stop_source stop;
  std::thread interrupt([&] {
    while (!hanging.started) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop.request_stop();
  });
  const Outcome run = Client({"generate", "--prompt", "a"}, "", stop.get_token());
  interrupt.join();
  server_->Shutdown();
  server_->Wait();
  EXPECT_EQ(run.code, ExitCode::kRequestFailed);
  EXPECT_THAT(run.err, HasSubstr("CANCELLED: interrupted"));
  EXPECT_TRUE(hanging.cancelled);
}

TEST_F(ClientTest, ADeadlineEndsTheRequest) {
  Hanging hanging;
  consumer_.generate = [&](grpc::ServerContext* context, const v1::GenerateRequest&,
                           FakeConsumer::Writer* writer) { return hanging(context, writer); };
  const Outcome run = Client({"generate", "--prompt", "a", "--deadline-ms", "200"});
  EXPECT_EQ(run.code, ExitCode::kRequestFailed);
  EXPECT_THAT(run.err, HasSubstr("DEADLINE_EXCEEDED"));
  server_->Shutdown();
  server_->Wait();
}

TEST_F(ClientTest, ScoreSumsUpAndListsPositions) {
  const Outcome run = Client({"score", "--prompt", "a", "--continuation", "b c", "--compare", "--positions"});
  ASSERT_EQ(run.code, ExitCode::kOk) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 tokens, log-probability -3.00000, perplexity 4.4817"));
  EXPECT_THAT(run.out, HasSubstr("-1.50000 there, KL 0.030000, total variation 0.300000"));
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 5);
  EXPECT_THAT(run.err, HasSubstr("mode      local, because short_prompt"));
  EXPECT_EQ(consumer_.score_request.text(), "b c");
  EXPECT_TRUE(consumer_.score_request.compare_with_native());

  const json document =
      json::parse(Client({"score", "--prompt", "a", "--continuation-ids", "1,2", "--json"}).out);
  EXPECT_EQ(document["num_tokens"], 2);
  EXPECT_EQ(document["positions"].size(), 3u);
  EXPECT_FALSE(document.contains("kl_mean"));
  EXPECT_THAT(consumer_.score_request.tokens().ids(), ElementsAre(1, 2));
}

TEST_F(ClientTest, CompareShowsBothAnswersBytesAndTimes) {
  const testing::TempDir folder;
  testing::WriteFile(folder.File("prompts.txt"), "First\nquestion?\n---\nSecond?\n");
  const Outcome run =
      Client({"compare", "--prompts-file", folder.File("prompts.txt"), "--max-tokens", "24", "--stop", "\n"});
  ASSERT_EQ(run.code, ExitCode::kOk) << run.err;
  for (const char* part :
       {"prompt 1 of 2: \"First\\nquestion?\"", "prompt 2 of 2: \"Second?\"",
        "own prefill   \"Mary Ashcombe\"", "(the same)", "382 transferred", "1.00 MiB against 8.00 MiB",
        "(8.0 times less)", "900.0 ms natively, 450.0 ms with codes made for it, 80.0 ms with codes ready"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
  ASSERT_EQ(consumer_.requests.size(), 6u);
  EXPECT_EQ(consumer_.requests[0].transfer().mode(), "local");
  EXPECT_EQ(consumer_.requests[1].transfer().policy(), v1::POLICY_REQUIRE);
  EXPECT_TRUE(consumer_.requests[1].transfer().no_code_store());
  EXPECT_FALSE(consumer_.requests[2].transfer().no_code_store());
  EXPECT_EQ(consumer_.requests[0].prompt().text(), "First\nquestion?");
  for (const v1::GenerateRequest& request : consumer_.requests)
    EXPECT_THAT(request.stop(), ElementsAre("\n"));

  const json document = json::parse(Client({"compare", "--prompt", "x", "--json"}).out);
  ASSERT_EQ(document.size(), 1u);
  EXPECT_EQ(document[0]["codes_ready"]["report"]["stored_tokens"], 320);
}

TEST_F(ClientTest, InfoAsksBothDaemons) {
  const Outcome run = Client({"info", "--producer-address", address_});
  EXPECT_EQ(run.code, ExitCode::kOk) << run.err;
  for (const char* part :
       {"consumer 0.1.0", "the expert", "abababab", "policy prefer", "reuse 24 layers", "the base",
        "bundles/one", "on disk at /codes: 12 blocks, 3.00 MiB of 8.00 MiB; 5 blocks found",
        "; 2 damaged, 0 not read, 0 not written"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
  EXPECT_THAT(Client({"info", "--role", "consumer"}).out, Not(HasSubstr("the base")));
  const json document = json::parse(Client({"info", "--producer-address", address_, "--json"}).out);
  EXPECT_EQ(document["producer"]["bundles"][0]["path"], "bundles/one");
  EXPECT_EQ(document["producer"]["prefilled_tokens"], 1234);
  EXPECT_EQ(document["producer"]["code_store_tiers"][0]["dropped_corrupt"], 2);

  const Outcome half = Client({"info", "--producer-address", DeadAddress()});
  EXPECT_EQ(half.code, ExitCode::kUnreachable);
  EXPECT_THAT(half.out, HasSubstr("the expert"));
}

TEST_F(ClientTest, HealthTellsServingFromNot) {
  EXPECT_EQ(Client({"health"}).code, ExitCode::kOk);
  EXPECT_EQ(Client({"health"}).out, "serving\n");
  server_->GetHealthCheckService()->SetServingStatus("scd.v1.Consumer", false);
  EXPECT_EQ(Client({"health", "--service", "scd.v1.Consumer"}).code, ExitCode::kRequestFailed);
  EXPECT_EQ(Client({"health", "--service", "no.such.Service"}).code, ExitCode::kRequestFailed);
  server_->GetHealthCheckService()->SetServingStatus("scd.v1.Consumer", true);
  EXPECT_EQ(Client({"health", "--service", "scd.v1.Consumer"}).code, ExitCode::kOk);
  server_->GetHealthCheckService()->SetServingStatus(false);
  const Outcome run = Client({"health"});
  EXPECT_EQ(run.code, ExitCode::kRequestFailed);
  EXPECT_THAT(run.err, HasSubstr("does not serve"));
}

TEST_F(ClientTest, SaysAtOnceThatNothingListens) {
  const std::string address = DeadAddress();
  const auto start = std::chrono::steady_clock::now();
  for (const std::vector<std::string>& command : {std::vector<std::string>{"generate", "--prompt", "a"},
                                                  {"score", "-p", "a", "-c", "b"},
                                                  {"compare", "-p", "a"},
                                                  {"health"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--address", address});
    const Outcome run = ClientAlone(arguments);
    EXPECT_EQ(run.code, ExitCode::kUnreachable) << command[0];
    EXPECT_THAT(run.err, HasSubstr(address));
    EXPECT_EQ(run.out, "");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(CommandLine, ExplainsItselfAndRefusesWrongUsage) {
  const auto run = [](const std::vector<std::string>& arguments) {
    std::istringstream in;
    std::ostringstream out, err;
    const ExitCode code = RunClient(arguments, {in, out, err, {}});
    return Outcome{code, out.str(), err.str()};
  };
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"generate", "--help"}, {"health", "--help"}}) {
    const Outcome help = run(arguments);
    EXPECT_EQ(help.code, ExitCode::kOk);
    EXPECT_THAT(help.out, HasSubstr("Exit codes: 0 done"));
    EXPECT_EQ(help.err, "");
  }
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"dance"},
        {"generate"},
        {"generate", "--prompt", "a", "--ids", "1"},
        {"generate", "--prompt", "a", "--mode", "magic"},
        {"generate", "--prompt", "a", "--policy", "maybe"},
        {"generate", "--prompt", "a", "--top-p", "1.5"},
        {"generate", "--prompt", "a", "--top-p", "nan"},
        {"generate", "--prompt", "a", "--min-p", "-nan"},
        {"generate", "--prompt", "a", "--temperature", "nan"},
        {"generate", "--prompt", "a", "--temperature", "inf"},
        {"generate", "--prompt", "a", "--repetition-penalty", "nan"},
        {"generate", "--prompt", "a", "--repetition-penalty", "1e300"},
        {"generate", "--prompt", "a", "--seed", "-1"},
        {"generate", "--ids", "1,,2"},
        {"generate", "--prompt", "a", "--stop-ids", ",2"},
        {"health", "--deadline-ms", "nan"},
        {"generate", "--prompt", "a", "--max-tokens", "-1"},
        {"generate", "--prompt", "a", "--max-tokens", "many"},
        {"generate", "--prompt", "a", "--logprobs", "21"},
        {"generate", "--prompt", "a", "--unknown"},
        {"generate", "--ids", "1,x"},
        {"generate", "--prompt", "a", "--no-patch", "--patch-layers", "1"},
        {"score", "--prompt", "a"},
        {"compare"},
        {"info", "--role", "king"}}) {
    const Outcome wrong = run(arguments);
    EXPECT_EQ(wrong.code, ExitCode::kUsage) << ::testing::PrintToString(arguments) << wrong.out << wrong.err;
    EXPECT_NE(wrong.err, "");
    EXPECT_EQ(wrong.out, "");
  }
}

}  // namespace
}  // namespace scd
