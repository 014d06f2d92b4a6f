#include "eval/metrics/answer_score.h"

#include <utility>

#include "eval/metrics/cmrc_score.h"
#include "eval/metrics/hotpot_score.h"
#include "eval/metrics/squad_score.h"

namespace scd {
namespace {

constexpr std::pair<QaScorer, std::string_view> kNames[] = {{QaScorer::kSquadV1, "squad_v1"},
                                                            {QaScorer::kSquadV2, "squad_v2"},
                                                            {QaScorer::kHotpotQa, "hotpotqa"},
                                                            {QaScorer::kCmrc2018, "cmrc2018"}};

}  // namespace

std::string QaScorerName(QaScorer scorer) {
  for (const auto& [value, name] : kNames) {
    if (value == scorer) return std::string(name);
  }
  return "unknown";
}

std::optional<QaScorer> ParseQaScorer(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string> QaScorerNames() {
  std::vector<std::string> names;
  for (const auto& entry : kNames) names.emplace_back(entry.second);
  return names;
}

AnswerScore ScoreAnswer(QaScorer scorer, std::string_view prediction,
                        const std::vector<std::string>& references) {
  switch (scorer) {
    case QaScorer::kSquadV1:
      return SquadV1Score(prediction, references);
    case QaScorer::kSquadV2:
      return SquadV2Score(prediction, references);
    case QaScorer::kHotpotQa:
      return HotpotScore(prediction, references);
    case QaScorer::kCmrc2018:
      return CmrcScore(prediction, references);
  }
  return {};
}

}  // namespace scd
