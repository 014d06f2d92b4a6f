#include "producer/producer_daemon.h"

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/service_rig.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

class ProducerDaemonTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Threads that gRPC keeps from one case to the next must not take the signals.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  }

  std::string Yaml() const {
    return "model: {path: " + testing::TestDataPath("tiny-llama") + "}\ndevice: reference\nbundles:\n  - " +
           tiny_.folder(0) + "\n  - " + tiny_.folder(1) +
           "\nprefill: {chunk_tokens: 32}\nkv_cache: {pages: 40, page_tokens: 16}\n"
           "server: {listen: \"127.0.0.1:0\", shutdown_grace_seconds: 0}\nmetrics: {listen: "
           "\"127.0.0.1:0\"}\n";
  }

  int RunFile(const std::string& path, std::vector<std::string> more = {},
              const std::function<void(const DaemonAddresses&)>& on_serving = {}) {
    std::vector<std::string> arguments = {"scd-producer", "--config", path};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    ProducerDaemon daemon;
    ::testing::internal::CaptureStderr();
    const int exit_code = RunDaemon(daemon, static_cast<int>(argv.size()), argv.data(), on_serving);
    errors_ = ::testing::internal::GetCapturedStderr();
    return exit_code;
  }
  int Run(std::vector<std::string> more = {},
          const std::function<void(const DaemonAddresses&)>& on_serving = {}) {
    testing::WriteFile(dir_.File("producer.yaml"), Yaml());
    return RunFile(dir_.File("producer.yaml"), std::move(more), on_serving);
  }

  testing::TinyProducer& tiny_ = testing::SharedTinyProducer();
  const testing::TempDir dir_;
  std::string errors_;
};

TEST_F(ProducerDaemonTest, CheckTakesGoodFiles) {
  EXPECT_EQ(Run({"--check"}), kExitOk) << errors_;
  EXPECT_EQ(errors_, "");
}

TEST_F(ProducerDaemonTest, CheckNamesWhatIsWrong) {
  EXPECT_EQ(Run({"--check", "--set", "model.path=/no/such/model"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr("/no/such/model"));
  EXPECT_EQ(Run({"--check", "--set", "device=abacus"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr("abacus"));

  EXPECT_EQ(Run({"--check", "--set", "kv_cache.pages=31"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr("kv_cache: holds 496 tokens"));
  EXPECT_THAT(errors_, HasSubstr("the longest prompt of 512"));
  EXPECT_EQ(Run({"--check", "--set", "kv_cache.pages=31", "--set", "prefill.max_prompt_tokens=496"}),
            kExitOk);

  const std::string other = dir_.File("other");
  ASSERT_TRUE(testing::WriteTinyBundle(other, tiny_.model().config, testing::MadeUpModel("another base"),
                                       testing::MadeUpModel("expert"))
                  .ok());
  EXPECT_EQ(Run({"--check", "--set", "bundles=[" + other + "]"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr(other));
  EXPECT_THAT(errors_, HasSubstr(tiny_.model().digest.ToHex()));
}

TEST_F(ProducerDaemonTest, AChangedByteInABundleIsRefused) {
  const std::string folder = dir_.File("bundle");
  std::filesystem::copy(tiny_.folder(0), folder, std::filesystem::copy_options::recursive);
  std::string tensors = testing::ReadFile(folder + "/tensors.safetensors");
  tensors.back() = static_cast<char>(tensors.back() ^ 1);
  testing::WriteFile(folder + "/tensors.safetensors", tensors);
  EXPECT_EQ(Run({"--check", "--set", "bundles=[" + folder + "]"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr(folder));
  tensors.pop_back();
  testing::WriteFile(folder + "/tensors.safetensors", tensors);
  EXPECT_EQ(Run({"--check", "--set", "bundles=[" + folder + "]"}), kExitFailure);
  EXPECT_THAT(errors_, HasSubstr(folder));
}

TEST_F(ProducerDaemonTest, HostileConfigurationsEndWithTwo) {
  SCD_SHARED_OR_SKIP(cases, "cases/yaml");
  for (const auto& file : std::filesystem::directory_iterator(cases)) {
    EXPECT_EQ(RunFile(file.path().string()), kExitUsage) << file.path();
    EXPECT_THAT(errors_, HasSubstr(file.path().string()));
  }
}

TEST_F(ProducerDaemonTest, ServesScrapesAndStopsInTheMiddleOfAStream) {
  std::jthread client;
  testing::Received whole;
  grpc::Status cut_status;
  std::string metrics;
  v1::ProducerInfo info;
  const auto on_serving = [&](const DaemonAddresses& addresses) {
    client = std::jthread([&, addresses] {
      const auto stub = v1::Producer::NewStub(testing::LoopbackChannel(addresses.grpc.port));
      whole = testing::Fetch(*stub, testing::PrefillOf(testing::TestTokens(100)));
      grpc::ClientContext info_context;
      stub->Info(&info_context, {}, &info);
      const auto slow_stub = v1::Producer::NewStub(testing::NarrowChannel(addresses.grpc.port));
      grpc::ClientContext context;
      const auto reader =
          slow_stub->Prefill(&context, testing::PrefillOf(testing::TestTokens(512), 1, Codec::kF32));
      v1::PrefillResponse message;
      EXPECT_TRUE(reader->Read(&message));
      // The first stream counts until the server, too, is done with it.
      EXPECT_TRUE(testing::Eventually([&] {
        metrics = testing::HttpGet(addresses.metrics.port, "/metrics");
        return metrics.find("scd_requests_in_flight 1\n") != std::string::npos;
      }));
      kill(getpid(), SIGTERM);
      while (reader->Read(&message)) {
      }
      cut_status = reader->Finish();
    });
  };
  EXPECT_EQ(Run({"--set", "stream.queue_frames=2"}, on_serving), kExitOk) << errors_;
  client.join();
  EXPECT_TRUE(whole.status.ok()) << whole.status.error_message();
  EXPECT_EQ(whole.codes, testing::ExpectedCodes(tiny_.bundle(0), tiny_.Plan(), testing::TestTokens(100), 1));
  EXPECT_EQ(cut_status.error_code(), grpc::StatusCode::UNAVAILABLE) << cut_status.error_message();

  EXPECT_EQ(info.model().digest(), std::string(tiny_.model().digest.bytes()));
  EXPECT_EQ(info.model().tokenizer_digest(), std::string(tiny_.model().tokenizer->digest().bytes()));
  EXPECT_EQ(info.model().architecture(), "llama");
  EXPECT_EQ(info.model().num_layers(), 4u);
  EXPECT_EQ(info.model().max_positions(), 512u);
  ASSERT_EQ(info.bundles_size(), 2);
  EXPECT_EQ(info.bundles(1).path(), tiny_.folder(1));
  EXPECT_EQ(info.bundles(1).digest(), std::string(tiny_.bundle(1).digest().bytes()));

  for (const char* text :
       {"scd_kv_pages_total 40", "scd_kv_pages_used ", "scd_kv_pages_cached 6",
        "scd_kv_pages_evicted_total 0", "scd_prefill_rows_total 100", "scd_prefill_rows_skipped_total 0",
        "scd_prefix_hits_total 0", "scd_code_store_bytes{tier=\"memory\"} ",
        "scd_transfer_bytes_total{kind=\"k\"}", "scd_transfer_seconds_count 1",
        "scd_prompt_tokens_total{source=\"computed\"} 100",
        "scd_model_info{digest=", "scd_bundle_info{digest=", "scd_build_info{program=\"scd-producer\""}) {
    EXPECT_THAT(metrics, HasSubstr(text));
  }
  EXPECT_THAT(errors_, HasSubstr("scd-producer 0.1.0 listens on 127.0.0.1:"));
  EXPECT_THAT(errors_, HasSubstr(tiny_.folder(1)));
  EXPECT_THAT(errors_, HasSubstr(", codes in memory (256 MiB)"));
  EXPECT_THAT(errors_, HasSubstr("status=ok"));
  EXPECT_THAT(errors_, HasSubstr("scd-producer ended"));
}

}  // namespace
}  // namespace scd
