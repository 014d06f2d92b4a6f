// The real pair with its matrices kept in 8 and 4 bits, against the same model dense in f32: prefill, greedy
// continuations and perplexity.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/io/json.h"
#include "tests/common/model/golden_rig.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using testing::ArgMax;
using testing::GoldenRig;

constexpr std::size_t kWindows = 8;   // of held-out text, decoded together
constexpr std::size_t kPrompts = 16;  // of the goldens
constexpr std::size_t kMaxSteps = 128;
constexpr std::size_t kGreedyTokens = 16;
constexpr double kUndecided = 0.5;  // logits; margin under which rounding may choose another token

struct Window {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> continuation;
};

std::vector<Window> ReadWindows(const std::string& path) {
  std::vector<Window> windows;
  std::ifstream file(path);
  std::string line;
  while (windows.size() < kWindows && std::getline(file, line)) {
    const nlohmann::json json = nlohmann::json::parse(line);
    windows.push_back({json["prefix_ids"], json["continuation_ids"]});
  }
  return windows;
}

double NegativeLogLikelihood(const std::vector<float>& logits, std::int32_t token) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) + largest - logits[static_cast<std::size_t>(token)];
}

// Sequences that go on together, a row for each in a step.
struct Together {
  explicit Together(const GoldenRig& rig) : rig(rig) {}

  void Start(const std::vector<std::int32_t>& prefix) {
    sequences.push_back(rig.NewSequence(prefix.size() + kMaxSteps));
    rig.Run({{sequences.back().get(), prefix, 0, LogitsWanted::kLast}});
    logits.push_back(rig.Logits(0));
  }

  void Step(const std::vector<std::int32_t>& next) {
    std::vector<ForwardChunk> chunks;
    for (std::size_t i = 0; i < next.size(); ++i) {
      chunks.push_back(
          {sequences[i].get(), {&next[i], 1}, sequences[i]->valid_length(), LogitsWanted::kLast});
    }
    rig.Run(chunks);
    for (std::size_t i = 0; i < next.size(); ++i) logits[i] = rig.Logits(static_cast<std::int64_t>(i));
  }

  const GoldenRig& rig;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::vector<float>> logits;  // after each sequence's last token
};

class QuantisedRealTest : public ::testing::Test {
 protected:
  static GoldenRig Rig(const std::string& base, bool expert, WeightsFormat format) {
    auto rig = GoldenRig::Make("cpu",
                               {.path = base,
                                .adapter = expert ? testing::ExpertAdapterPath() : std::string(),
                                .config = "",
                                .weights = format},
                               512, 160);
    EXPECT_TRUE(rig.ok()) << rig.status();
    return *std::move(rig);
  }

  // Of the continuations, each token scored by a step of one row for each window.
  static double Perplexity(const GoldenRig& rig, const std::vector<Window>& windows) {
    Together together(rig);
    for (const Window& w : windows) together.Start(w.prefix);
    double sum = 0.0;
    std::size_t count = 0;
    for (std::size_t step = 0; step < windows.front().continuation.size(); ++step) {
      std::vector<std::int32_t> next;
      for (std::size_t i = 0; i < windows.size(); ++i) {
        next.push_back(windows[i].continuation[step]);
        sum += NegativeLogLikelihood(together.logits[i], next.back());
      }
      count += next.size();
      together.Step(next);
    }
    return std::exp(sum / static_cast<double>(count));
  }

  static void ComparePerplexity(const std::string& base, const std::string& windows_path, bool expert,
                                const std::vector<std::pair<WeightsFormat, double>>& formats) {
    const std::vector<Window> windows = ReadWindows(windows_path);
    ASSERT_EQ(windows.size(), kWindows);
    const double dense = Perplexity(Rig(base, expert, WeightsFormat::kF32), windows);
    std::printf("%s: perplexity %.4f dense in f32", expert ? "expert" : "base", dense);
    for (const auto& [format, tolerance] : formats) {
      const GoldenRig rig = Rig(base, expert, format);
      const double got = Perplexity(rig, windows);
      const std::string name(WeightsFormatName(format));
      std::printf(", %.4f (%+.2f %%) %s [%s]", got, 100 * (got / dense - 1), name.c_str(),
                  rig.transformer->weights_description().c_str());
      EXPECT_LT(std::abs(got / dense - 1), tolerance) << name;
    }
    std::printf("\n");
  }

  // The last logits of each window's prefix, all of whose rows go through the head (so that it is a product
  // of many rows too): to f32 tolerance.
  static void ComparePrefill(const std::string& base, const std::string& windows_path, bool expert,
                             double tolerance) {
    const std::vector<Window> windows = ReadWindows(windows_path);
    const GoldenRig kept = Rig(base, expert, WeightsFormat::kAuto);
    const GoldenRig dense = Rig(base, expert, WeightsFormat::kF32);
    double worst = 0.0;
    for (std::size_t w = 0; w < 2; ++w) {
      const auto last_logits = [&](const GoldenRig& rig) {
        const auto sequence = rig.NewSequence(windows[w].prefix.size());
        rig.Run({{sequence.get(), windows[w].prefix, 0, LogitsWanted::kAll}});
        return rig.Logits(static_cast<std::int64_t>(windows[w].prefix.size()) - 1);
      };
      const std::vector<float> got = last_logits(kept);
      const std::vector<float> wanted = last_logits(dense);
      for (std::size_t i = 0; i < got.size(); ++i) {
        worst = std::max<double>(worst, std::abs(got[i] - wanted[i]));
      }
    }
    std::printf("%s: prefilled logits differ by at most %.2g\n", expert ? "expert" : "base", worst);
    EXPECT_LT(worst, tolerance);
  }

  // 16 tokens after each golden prompt, the dense model's in both; where the kept one would choose another,
  // how far apart the dense model's logits of the two are.
  static void CompareGreedy(const std::string& base, const std::string& expected_path, bool expert) {
    const auto expected = ParseJsonFile(expected_path);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const GoldenRig kept = Rig(base, expert, WeightsFormat::kAuto);
    const GoldenRig dense = Rig(base, expert, WeightsFormat::kF32);
    const nlohmann::json& runs = (*expected)["runs"];
    std::size_t same = 0;
    double widest = 0.0;
    ASSERT_GE(runs.size(), kPrompts);
    for (std::size_t begin = 0; begin < kPrompts; begin += kWindows) {
      Together a(kept);
      Together b(dense);
      for (std::size_t r = begin; r < begin + kWindows; ++r) {
        const std::vector<std::int32_t> ids = runs[r]["ids"];
        a.Start(ids);
        b.Start(ids);
      }
      std::vector<bool> differs(kWindows, false);
      for (std::size_t step = 0; step < kGreedyTokens; ++step) {
        std::vector<std::int32_t> next;
        for (std::size_t i = 0; i < kWindows; ++i) {
          next.push_back(ArgMax(b.logits[i]));
          const std::int32_t chosen = ArgMax(a.logits[i]);
          if (chosen == next[i]) continue;
          differs[i] = true;
          widest = std::max<double>(widest, b.logits[i][static_cast<std::size_t>(next[i])] -
                                                b.logits[i][static_cast<std::size_t>(chosen)]);
        }
        a.Step(next);
        b.Step(next);
      }
      same += static_cast<std::size_t>(std::count(differs.begin(), differs.end(), false));
    }
    std::printf("%s: %zu of %zu greedy texts are the same, the widest margin that was overruled is %.2g\n",
                expert ? "expert" : "base", same, kPrompts, widest);
    EXPECT_LT(widest, kUndecided);
    EXPECT_GE(same, kPrompts / 2);
  }
};

TEST_F(QuantisedRealTest, PrefillIsThatOfTheDenseModel) {
  SCD_SHARED_OR_SKIP(windows, "data/eval_lm.jsonl");
  SCD_BASE_MODEL_OR_SKIP(base);
  ComparePrefill(base, windows, false, 2e-3);
  ComparePrefill(base, windows, true, 0.2);  // the adapter's matrices are rounded to 8 bits
}

TEST_F(QuantisedRealTest, GreedyTextChangesOnlyWhereItIsUndecided) {
  SCD_SHARED_OR_SKIP(expected, "goldens/smollm2/expected.json");
  SCD_BASE_MODEL_OR_SKIP(base);
  CompareGreedy(base, expected, false);
  CompareGreedy(base, expected, true);
}

TEST_F(QuantisedRealTest, PerplexityIsKept) {
  SCD_SHARED_OR_SKIP(windows, "data/eval_lm.jsonl");
  SCD_BASE_MODEL_OR_SKIP(base);
  ComparePerplexity(
      base, windows, false,
      {{WeightsFormat::kInt8, 0.005}, {WeightsFormat::kAuto, 0.03}, {WeightsFormat::kInt4, 0.03}});
  ComparePerplexity(base, windows, true, {{WeightsFormat::kInt8, 0.005}, {WeightsFormat::kAuto, 0.03}});
}

// Every matrix of the file, as blocks, is what it is written out: the order of Q's and K's rows too.
TEST_F(QuantisedRealTest, BlocksStandForTheNumbersThatAreWrittenOut) {
  SCD_BASE_MODEL_OR_SKIP(base);
  const auto model = OpenModel({.path = base, .adapter = "", .config = ""});
  ASSERT_TRUE(model.ok()) << model.status();
  int num_matrices = 0;
  const auto compare = [&](WeightKind kind, std::int64_t layer) {
    SCOPED_TRACE(::testing::Message() << "layer " << layer << " " << WeightKindName(kind));
    const auto blocks = model->weights->LoadBlocks(kind, layer);
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    if (!*blocks) return;
    ++num_matrices;
    ASSERT_TRUE((*blocks)->exact);
    const QuantizedMatrix& matrix = (*blocks)->matrix;
    const std::vector<float> wanted = std::move(*model->weights->Load(kind, layer)).TakeFloats();
    std::vector<float> row(static_cast<std::size_t>(matrix.in_features));
    for (std::int64_t r = 0; r < matrix.out_features; ++r) {
      DequantizeRow(matrix, r, row.data());
      ASSERT_TRUE(std::equal(row.begin(), row.end(), wanted.begin() + r * matrix.in_features)) << "row " << r;
    }
  };
  compare(WeightKind::kEmbedding, -1);
  for (std::int64_t layer = 0; layer < model->config.num_layers; layer += 7) {
    for (const WeightKind kind : LayerWeightKinds(model->config)) compare(kind, layer);
  }
  EXPECT_EQ(num_matrices, 1 + 5 * 7);
}

}  // namespace
}  // namespace scd
