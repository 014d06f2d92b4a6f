// The tiny models of tests/data against what transformers computed for them.
#include <numeric>
#include <tuple>

#include "common/io/json.h"
#include "tests/common/model/golden_rig.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using testing::ArgMax;
using testing::GoldenRig;
using testing::RelativeError;

struct GoldenRun {
  explicit GoldenRun(const nlohmann::json& j)
      : ids(j["ids"]),
        argmax(j["argmax"]),
        last_logits(j["last_logits"]),
        logit_sums(j["logit_sums"]),
        greedy(j["greedy"]) {}

  std::vector<std::int32_t> ids, argmax;
  std::vector<double> last_logits, logit_sums;
  std::vector<std::int32_t> greedy;
};

class GoldenTinyTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    const std::string folder = testing::TestDataPath(std::get<0>(GetParam()));
    auto expected = ParseJsonFile(folder + "/expected.json");
    ASSERT_TRUE(expected.ok()) << expected.status();
    expected_ = *std::move(expected);
    for (const nlohmann::json& run : expected_["runs"]) runs_.emplace_back(run);
    ASSERT_EQ(runs_.size(), 2u);
    auto rig =
        GoldenRig::Make(std::get<1>(GetParam()), {.path = folder, .adapter = "", .config = ""}, 256, 64);
    ASSERT_TRUE(rig.ok()) << rig.status();
    rig_ = *std::move(rig);
  }

  // Logits of every position.
  std::vector<std::vector<float>> Prefill(Sequence& sequence, const std::vector<std::int32_t>& ids,
                                          std::size_t chunk_tokens) {
    std::vector<std::vector<float>> rows;
    for (std::size_t begin = 0; begin < ids.size(); begin += chunk_tokens) {
      const auto piece = absl::MakeConstSpan(ids).subspan(begin, chunk_tokens);
      rig_.Run({{&sequence, piece, static_cast<std::int64_t>(begin), LogitsWanted::kAll}});
      for (std::size_t i = 0; i < piece.size(); ++i)
        rows.push_back(rig_.Logits(static_cast<std::int64_t>(i)));
    }
    return rows;
  }

  static double Range(const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return *high - *low;
  }

  nlohmann::json expected_;
  std::vector<GoldenRun> runs_;
  GoldenRig rig_;
};

TEST_P(GoldenTinyTest, LogitsInAnyChunking) {
  for (const GoldenRun& run : runs_) {
    for (const std::size_t chunk : {run.ids.size(), std::size_t{7}, std::size_t{1}}) {
      SCOPED_TRACE(::testing::Message() << run.ids.size() << " ids in chunks of " << chunk);
      const auto sequence = rig_.NewSequence(run.ids.size());
      const auto logits = Prefill(*sequence, run.ids, chunk);
      ASSERT_EQ(logits.size(), run.ids.size());
      const double range = Range(run.last_logits);
      for (std::size_t i = 0; i < run.last_logits.size(); ++i) {
        ASSERT_NEAR(logits.back()[i], run.last_logits[i], 2e-3 * range) << "logit " << i;
      }
      for (std::size_t p = 0; p < logits.size(); ++p) {
        EXPECT_EQ(ArgMax(logits[p]), run.argmax[p]) << "position " << p;
        const double sum = std::accumulate(logits[p].begin(), logits[p].end(), 0.0);
        EXPECT_NEAR(sum, run.logit_sums[p], 2e-3 * range) << "position " << p;
      }
    }
  }
}

TEST_P(GoldenTinyTest, TapsOfALayer) {
  const nlohmann::json& taps = expected_["layer_taps"];
  const std::int64_t layer = taps["layer"];
  testing::EdgeRows rows({layer});
  const auto sequence = rig_.NewSequence(runs_[0].ids.size());
  rig_.Run({{sequence.get(), runs_[0].ids, 0, LogitsWanted::kNone}}, &rows);
  ASSERT_TRUE(rows.layers.contains(layer));
  const auto& shown = rows.layers[layer];
  EXPECT_LT(RelativeError(shown.k_first, taps["k"]["first_row"]), 1e-4);
  EXPECT_LT(RelativeError(shown.k_last, taps["k"]["last_row"]), 1e-4);
  EXPECT_LT(RelativeError(shown.v_first, taps["v"]["first_row"]), 1e-4);
  EXPECT_LT(RelativeError(shown.v_last, taps["v"]["last_row"]), 1e-4);
  EXPECT_LT(RelativeError(shown.h_first, taps["h"]["first_row"]), 1e-4);
  EXPECT_LT(RelativeError(shown.h_last, taps["h"]["last_row"]), 1e-4);
}

TEST_P(GoldenTinyTest, GreedyContinuationsAloneAndTogether) {
  const auto start = [&](const GoldenRun& run) {
    auto sequence = rig_.NewSequence(run.ids.size() + run.greedy.size());
    rig_.Run({{sequence.get(), run.ids, 0, LogitsWanted::kLast}});
    return std::make_pair(std::move(sequence), ArgMax(rig_.Logits(0)));
  };
  std::vector<std::unique_ptr<Sequence>> together;
  std::vector<std::int32_t> next;
  for (int copy = 0; copy < 2; ++copy) {
    for (const GoldenRun& run : runs_) {
      auto [sequence, first] = start(run);
      if (copy == 0) {
        std::vector<std::unique_ptr<Sequence>> alone;
        alone.push_back(std::move(sequence));
        EXPECT_EQ(ContinueGreedily(rig_, alone, {first}, run.greedy.size())[0], run.greedy);
        std::tie(sequence, first) = start(run);
      }
      together.push_back(std::move(sequence));
      next.push_back(first);
    }
  }
  const auto tokens = ContinueGreedily(rig_, together, next, runs_[0].greedy.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], runs_[i % 2].greedy);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTinyTest,
                         ::testing::Combine(::testing::Values("tiny-llama", "tiny-llama3", "tiny-mistral",
                                                              "tiny-qwen2", "tiny-qwen3"),
                                            ::testing::Values("reference", "cpu")),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param).substr(5) + "_" + std::get<1>(info.param);
                           return name;
                         });

}  // namespace
}  // namespace scd
