// The quality of the real pair through the running daemons, against the reference measurement (e2e_paths.h).
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/daemon_pair.h"
#include "tests/e2e/e2e_paths.h"
#include "tests/support/shared_data.h"

namespace scd::testing {
namespace {

constexpr std::size_t kWindows = 10;
constexpr std::size_t kQuestions = 90;
// Machines that are busy with other things take their time.
constexpr double kDeadlineSeconds = 300;
constexpr std::uint32_t kTransferTimeoutMs = 240'000;

struct Window {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> continuation;
};

struct Figures {
  double kl = 0;
  double kl_qa = 0;
  double ppl = 0;
  double native_ppl = 0;
  double transferred = 0;  // tokens of all prompts
  double prompt_tokens = 0;
  double code_bytes_per_token = 0;
};

struct PlanCase {
  std::string name;
  std::vector<std::uint32_t> patch_layers;
  std::uint32_t native_tail = 0;
};

const std::vector<std::uint32_t> kPatchLayers = {20, 18, 19, 23, 24, 26};

template <typename Use>
void ReadLines(const std::string& path, std::size_t count, Use use) {
  std::ifstream in(path);
  std::string line;
  while (count-- > 0 && std::getline(in, line)) use(nlohmann::json::parse(line));
}

class QualityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SCD_SHARED_OR_SKIP(windows, "data/eval_lm.jsonl");
    SCD_SHARED_OR_SKIP(questions, "data/eval_qa.jsonl");
    SCD_BASE_MODEL_OR_SKIP(base);
    const auto bundle = ReferenceBundlePath();
    ASSERT_TRUE(bundle.has_value()) << "the fixture that fits the reference bundle did not make it";
    ReadLines(windows, kWindows, [&](const nlohmann::json& line) {
      windows_.push_back({line.at("prefix_ids"), line.at("continuation_ids")});
    });
    ReadLines(questions, kQuestions, [&](const nlohmann::json& line) {
      questions_.push_back("Context: " + line.at("context").get<std::string>() +
                           "\nQuestion: " + line.at("question").get<std::string>() + "\nAnswer:");
    });
    ASSERT_EQ(windows_.size(), kWindows);
    ASSERT_EQ(questions_.size(), kQuestions);
    PairFiles files = RealPair(base, *bundle);
    for (auto* settings : {&files.consumer_settings, &files.producer_settings}) {
      settings->push_back("math=f32");
      settings->push_back("model.weights=f32");
    }
    auto pair = DaemonPair::Start(files);
    ASSERT_TRUE(pair.ok()) << pair.status();
    pair_ = *std::move(pair);
  }

  // Through the codes or not at all; every position that the plan leaves to the producer came from it.
  v1::ScoreResponse Score(v1::ScoreRequest request, const PlanCase& plan, Figures& figures) {
    v1::Transfer* transfer = request.mutable_transfer();
    transfer->set_mode("scd");
    transfer->set_policy(v1::POLICY_REQUIRE);
    transfer->set_no_code_store(true);
    transfer->set_timeout_ms(kTransferTimeoutMs);
    transfer->mutable_plan()->set_native_head(1);
    transfer->mutable_plan()->set_native_tail(plan.native_tail);
    transfer->mutable_plan()->mutable_patch_layers()->mutable_layers()->Add(plan.patch_layers.begin(),
                                                                            plan.patch_layers.end());
    request.set_compare_with_native(true);
    v1::ScoreResponse response;
    const grpc::Status status = pair_->client().Score(request, &response, kDeadlineSeconds);
    if (!status.ok()) {
      ADD_FAILURE() << status.error_message();
      return response;
    }
    const v1::TransferReport& report = response.report();
    EXPECT_EQ(report.mode(), "scd");
    EXPECT_EQ(report.transferred_tokens(), report.prompt_tokens() - 1 - 1 - plan.native_tail);
    EXPECT_EQ(report.stored_tokens(), 0u);
    figures.transferred += report.transferred_tokens();
    figures.prompt_tokens += report.prompt_tokens();
    figures.code_bytes_per_token = static_cast<double>(report.code_bytes()) / report.transferred_tokens();
    return response;
  }

  Figures Measure(const PlanCase& plan) {
    Figures figures;
    double nll = 0;
    double native_nll = 0;
    double tokens = 0;
    for (const Window& window : windows_) {
      v1::ScoreRequest request;
      request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(window.prefix.begin(),
                                                                     window.prefix.end());
      request.mutable_tokens()->mutable_ids()->Add(window.continuation.begin(), window.continuation.end());
      const v1::ScoreResponse response = Score(request, plan, figures);
      double kl = 0;
      for (const v1::PositionScore& position : response.positions()) {
        kl += position.kl();
        nll -= position.logprob();
        native_nll -= position.native_logprob();
      }
      EXPECT_EQ(response.positions_size(), static_cast<int>(window.continuation.size()) + 1);
      figures.kl += kl / static_cast<double>((window.continuation.size() + 1) * windows_.size());
      tokens += static_cast<double>(window.continuation.size());
    }
    figures.ppl = std::exp(nll / tokens);
    figures.native_ppl = std::exp(native_nll / tokens);
    for (const std::string& question : questions_) {
      v1::ScoreRequest request;
      request.mutable_prompt()->set_text(question);
      const v1::ScoreResponse response = Score(request, plan, figures);
      EXPECT_EQ(response.positions_size(), 1);
      if (response.positions_size() == 1) {
        figures.kl_qa += response.positions(0).kl() / static_cast<double>(questions_.size());
      }
    }
    const std::string row =
        absl::StrCat("KL ", figures.kl, "  KLqa ", figures.kl_qa, "  PPL ", figures.ppl, "  (oracle ",
                     figures.native_ppl, ")  ", figures.code_bytes_per_token, " bytes/token, ",
                     figures.transferred, " of ", figures.prompt_tokens, " tokens transferred");
    std::printf("%-24s %s\n", plan.name.c_str(), row.c_str());
    std::fflush(stdout);
    RecordProperty(plan.name, row);
    EXPECT_NEAR(figures.native_ppl, kOraclePpl, kPplTolerance);
    return figures;
  }

  static void ExpectInBand(const std::string& name, const Figures& figures, const QualityBand& band) {
    EXPECT_NEAR(figures.kl, band.kl, band.kl * kKlTolerance) << name;
    EXPECT_NEAR(figures.kl_qa, band.kl_qa, band.kl_qa * kKlTolerance) << name;
    EXPECT_NEAR(figures.ppl, band.ppl, kPplTolerance) << name;
  }

  std::vector<Window> windows_;
  std::vector<std::string> questions_;
  std::unique_ptr<DaemonPair> pair_;
};

TEST_F(QualityTest, IsThatOfTheReferenceMeasurement) {
  const Figures reuse0 = Measure({"reuse_tail_0", {}, 0});
  const Figures reuse16 = Measure({"reuse_tail_16", {}, 16});
  const Figures patch0 = Measure({"patch_tail_0", kPatchLayers, 0});
  const Figures patch16 = Measure({"patch_tail_16", kPatchLayers, 16});

  // Closed form: what is left is the order of sums.
  ExpectInBand("reuse, tail 0", reuse0, kReuseTail0);
  ExpectInBand("reuse, tail 16", reuse16, kReuseTail16);
  EXPECT_EQ(reuse0.code_bytes_per_token, 13440);
  EXPECT_EQ(patch0.code_bytes_per_token, 17664);

  // Patch is trained: better than the reference is no fault, better than its layers' own KV would be a wrong
  // measurement.
  EXPECT_LT(patch0.kl, kPatchTail0.kl * (1 + kKlTolerance));
  EXPECT_GT(patch0.kl, kPatchKlCeiling * (1 - kKlTolerance));
  EXPECT_LT(patch0.kl_qa, kPatchTail0.kl_qa * (1 + kKlTolerance));
  EXPECT_LT(patch0.ppl, kPatchTail0.ppl + kPplTolerance);

  // The order of the rows.
  EXPECT_LT(reuse16.kl, reuse0.kl);
  EXPECT_LT(patch0.kl, reuse0.kl);
  EXPECT_LT(patch16.kl, patch0.kl);
  EXPECT_LT(patch16.kl, reuse16.kl);
  EXPECT_LT(reuse16.kl_qa, reuse0.kl_qa / 2);
  EXPECT_LT(patch16.kl_qa, patch0.kl_qa / 2);
}

}  // namespace
}  // namespace scd::testing
