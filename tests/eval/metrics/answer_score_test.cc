#include "eval/metrics/answer_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "eval/metrics/cmrc_score.h"
#include "eval/metrics/squad_score.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The expected values are those of other programs: tests/data/eval/make_expected.py.
TEST(AnswerScoreTest, StoredPairsScoreAsThePublishedDefinitionsSay) {
  const nlohmann::json expected = ParseJsonFile(testing::TestDataPath("eval/answer_scores.json")).value();
  std::ifstream pairs(testing::TestDataPath("eval/answer_pairs.jsonl"));
  std::size_t i = 0;
  for (std::string line; std::getline(pairs, line); ++i) {
    ASSERT_LT(i, expected.size());
    const nlohmann::json pair = ParseJson(line, "pair").value();
    const auto references = pair[1].get<std::vector<std::string>>();
    for (const std::string& name : QaScorerNames()) {
      const AnswerScore score =
          ScoreAnswer(ParseQaScorer(name).value(), pair[0].get<std::string>(), references);
      EXPECT_NEAR(score.f1, expected[i][name][0].get<double>(), 1e-9) << name << " F1 of " << line;
      EXPECT_EQ(score.exact, expected[i][name][1].get<double>()) << name << " exact match of " << line;
    }
  }
  EXPECT_EQ(i, expected.size());
  EXPECT_GE(i, 200u);
}

TEST(AnswerScoreTest, NamesAndScorers) {
  EXPECT_THAT(QaScorerNames(), ElementsAre("squad_v1", "squad_v2", "hotpotqa", "cmrc2018"));
  for (const std::string& name : QaScorerNames()) EXPECT_EQ(QaScorerName(ParseQaScorer(name).value()), name);
  EXPECT_FALSE(ParseQaScorer("squad"));
}

TEST(AnswerScoreTest, QuestionsWithoutAnswer) {
  EXPECT_EQ(ScoreAnswer(QaScorer::kSquadV2, "", {}).f1, 1);
  EXPECT_EQ(ScoreAnswer(QaScorer::kSquadV2, " The.", {}).exact, 1);
  EXPECT_EQ(ScoreAnswer(QaScorer::kSquadV2, "1807", {}).f1, 0);
  EXPECT_EQ(ScoreAnswer(QaScorer::kSquadV2, "1807", {}).exact, 0);
  for (const QaScorer scorer : {QaScorer::kSquadV1, QaScorer::kHotpotQa, QaScorer::kCmrc2018}) {
    EXPECT_EQ(ScoreAnswer(scorer, "", {}).f1, 0);
    EXPECT_EQ(ScoreAnswer(scorer, "", {}).exact, 0);
  }
}

TEST(AnswerScoreTest, PartsOfTheNormalisation) {
  EXPECT_THAT(SquadWords("The cat, a hat & AN other-wise!"), ElementsAre(U"cat", U"hat", U"otherwise"));
  EXPECT_THAT(SquadWords(" .,!? the "), IsEmpty());
  EXPECT_DOUBLE_EQ(WordF1(1, 2, 4), 1.0 / 3);
  EXPECT_EQ(NumSharedWords({U"x", U"x", U"y"}, {U"x", U"y", U"y"}), 2u);
  EXPECT_THAT(CmrcSegments(" 《Kestrel-2》号，1987年 "), ElementsAre(U"kestrel2", U"号", U"1987", U"年"));
}

TEST(AnswerScoreTest, TheLongestCommonRunIsContiguous) {
  // Shares four characters, at most two of them in one run.
  EXPECT_DOUBLE_EQ(ScoreAnswer(QaScorer::kCmrc2018, "甲乙丙丁", {"甲乙戊丙丁"}).f1, 2 * 0.5 * 0.4 / 0.9);
  // A run that would be longer with the row before the last taken into account.
  EXPECT_DOUBLE_EQ(ScoreAnswer(QaScorer::kCmrc2018, "甲丙", {"甲乙丙"}).f1,
                   2 * 0.5 * (1.0 / 3) / (0.5 + 1.0 / 3));
}

TEST(AnswerScoreTest, BytesThatAreNotUtf8AreScored) {
  for (const std::string& name : QaScorerNames()) {
    const AnswerScore score =
        ScoreAnswer(ParseQaScorer(name).value(), "kiln \xff\xc3", {"kiln \xef\xbf\xbd\xef\xbf\xbd"});
    EXPECT_EQ(score.exact, 1) << name;
  }
}

}  // namespace
}  // namespace scd
