// The real pair against what transformers computed for it, in f32: 40 prompts, base and expert.
#include <cstdio>
#include <numeric>
#include <string>

#include "common/io/json.h"
#include "tests/common/model/golden_rig.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using testing::ArgMax;
using testing::GoldenRig;
using testing::RelativeError;

constexpr std::size_t kGroup = 8;    // prompts decoded together
constexpr double kUndecided = 0.02;  // margin under which either token may stand
constexpr double kLogitTolerance = 0.02;

struct Totals {
  std::int64_t compared = 0;
  std::int64_t golden = 0;
  double worst_logit = 0.0;
  double worst_mean = 0.0;
  double worst_tap = 0.0;
  std::int64_t tap_rows = 0;
};

class GoldenRealTest : public ::testing::Test {
 protected:
  // Everything that is known of the prompt's last position.
  void CheckPrompt(const GoldenRig& rig, const nlohmann::json& expected, const testing::EdgeRows& rows,
                   Totals& totals) {
    const std::vector<float> logits = rig.Logits(0);
    for (std::size_t i = 0; i < expected["top8_ids"].size(); ++i) {
      const auto id = expected["top8_ids"][i].get<std::size_t>();
      const double difference = std::abs(logits[id] - expected["top8_logits"][i].get<double>());
      EXPECT_LT(difference, kLogitTolerance) << "logit of id " << id;
      totals.worst_logit = std::max(totals.worst_logit, difference);
    }
    const double mean =
        std::accumulate(logits.begin(), logits.end(), 0.0) / static_cast<double>(logits.size());
    const double mean_error = std::abs(mean - expected["logits_mean"].get<double>());
    EXPECT_LT(mean_error, 2e-3);
    totals.worst_mean = std::max(totals.worst_mean, mean_error);
    if (!expected.contains("taps")) return;
    for (const auto& [layer, taps] : expected["taps"].items()) {
      const testing::EdgeRows::Layer& shown = rows.layers.at(std::stoll(layer));
      for (const double error : {RelativeError(shown.k_last, taps["k_pre_rope_last_row"]),
                                 RelativeError(shown.v_last, taps["v_last_row"]),
                                 RelativeError(shown.h_last, taps["h_last_row"])}) {
        EXPECT_LT(error, 1e-4) << "layer " << layer;
        totals.worst_tap = std::max(totals.worst_tap, error);
        ++totals.tap_rows;
      }
    }
  }

  // Until the first token that differs where the two best logits were too close to call.
  void CheckGreedy(const std::vector<std::int32_t>& tokens, const nlohmann::json& expected, Totals& totals) {
    const std::vector<std::int32_t> golden = expected["greedy16"];
    totals.golden += static_cast<std::int64_t>(golden.size());
    for (std::size_t i = 0; i < golden.size(); ++i) {
      if (tokens[i] != golden[i] && expected["greedy_margin"][i].get<double>() < kUndecided) return;
      ++totals.compared;
      ASSERT_EQ(tokens[i], golden[i]) << "token " << i;
    }
  }

  void CheckModel(const std::string& which, const ModelSource& source, const std::string& expected_path) {
    const auto expected = ParseJsonFile(expected_path);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto rig = GoldenRig::Make("cpu", source, 512, 100);
    ASSERT_TRUE(rig.ok()) << rig.status();
    const nlohmann::json& runs = (*expected)["runs"];
    ASSERT_EQ(runs.size(), 40u);
    Totals totals;
    for (std::size_t begin = 0; begin < runs.size(); begin += kGroup) {
      std::vector<std::unique_ptr<Sequence>> sequences;
      std::vector<std::int32_t> next;
      for (std::size_t r = begin; r < begin + kGroup; ++r) {
        SCOPED_TRACE(::testing::Message() << which << ", prompt " << r);
        const std::vector<std::int32_t> ids = runs[r]["ids"];
        sequences.push_back(rig->NewSequence(ids.size() + 16));
        testing::EdgeRows rows({0, 14, 29});
        rig->Run({{sequences.back().get(), ids, 0, LogitsWanted::kLast}}, &rows);
        next.push_back(ArgMax(rig->Logits(0)));
        CheckPrompt(*rig, runs[r][which], rows, totals);
      }
      const auto tokens = ContinueGreedily(*rig, sequences, next, 16);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        SCOPED_TRACE(::testing::Message() << which << ", prompt " << begin + i);
        CheckGreedy(tokens[i], runs[begin + i][which], totals);
      }
    }
    std::printf(
        "%s: %lld of %lld golden tokens compared; worst difference of a logit %.2g, of the logits' mean "
        "%.2g, "
        "of %lld tapped rows %.2g\n",
        which.c_str(), static_cast<long long>(totals.compared), static_cast<long long>(totals.golden),
        totals.worst_logit, totals.worst_mean, static_cast<long long>(totals.tap_rows), totals.worst_tap);
    EXPECT_GT(totals.tap_rows, 0);
    EXPECT_GE(static_cast<double>(totals.compared), 0.9 * static_cast<double>(totals.golden));
  }
};

TEST_F(GoldenRealTest, Base) {
  SCD_SHARED_OR_SKIP(expected, "goldens/smollm2/expected.json");
  SCD_BASE_MODEL_OR_SKIP(base);
  CheckModel("base", {.path = base, .adapter = "", .config = ""}, expected);
}

TEST_F(GoldenRealTest, Expert) {
  SCD_SHARED_OR_SKIP(expected, "goldens/smollm2/expected.json");
  SCD_BASE_MODEL_OR_SKIP(base);
  CheckModel("expert", {.path = base, .adapter = testing::ExpertAdapterPath(), .config = ""}, expected);
}

}  // namespace
}  // namespace scd
