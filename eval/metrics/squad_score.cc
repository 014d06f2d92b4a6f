#include "eval/metrics/squad_score.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "eval/metrics/python_text.h"

namespace scd {
namespace {

using Words = std::vector<std::u32string>;

bool IsAsciiPunctuation(char32_t c) {
  return c < 0x80 && absl::ascii_ispunct(static_cast<unsigned char>(c));
}

bool IsArticle(std::u32string_view word) {
  return word == U"a" || word == U"an" || word == U"the";
}

AnswerScore BestOver(const Words& predicted, const std::vector<Words>& references,
                     bool empty_texts_are_equal) {
  AnswerScore best;
  for (const Words& expected : references) {
    double f1 = WordF1(NumSharedWords(predicted, expected), predicted.size(), expected.size());
    if (empty_texts_are_equal && predicted.empty() && expected.empty()) f1 = 1;
    best.f1 = std::max(best.f1, f1);
    if (predicted == expected) best.exact = 1;
  }
  return best;
}

}  // namespace

std::vector<std::u32string> SquadWords(std::string_view text) {
  std::u32string kept = PythonLower(ToCodePoints(text));
  kept.erase(std::remove_if(kept.begin(), kept.end(), IsAsciiPunctuation), kept.end());
  // An article stands between word boundaries: it is a whole run of word characters.
  std::u32string without_articles;
  for (auto it = kept.cbegin(); it != kept.cend();) {
    const auto end = std::find_if_not(it, kept.cend(), IsPythonWord);
    if (end == it) {
      without_articles.push_back(*it++);
      continue;
    }
    const std::u32string word(it, end);
    without_articles += IsArticle(word) ? U" " : word;
    it = end;
  }
  return PythonSplit(without_articles);
}

std::size_t NumSharedWords(const Words& a, const Words& b) {
  std::map<std::u32string_view, std::size_t> left;
  for (const std::u32string& word : b) ++left[word];
  std::size_t shared = 0;
  for (const std::u32string& word : a) {
    const auto it = left.find(word);
    if (it == left.end() || it->second == 0) continue;
    --it->second;
    ++shared;
  }
  return shared;
}

double WordF1(std::size_t num_shared, std::size_t num_predicted, std::size_t num_expected) {
  if (num_shared == 0) return 0;
  const double precision = static_cast<double>(num_shared) / static_cast<double>(num_predicted);
  const double recall = static_cast<double>(num_shared) / static_cast<double>(num_expected);
  return 2 * precision * recall / (precision + recall);
}

AnswerScore SquadV1Score(std::string_view prediction, const std::vector<std::string>& references) {
  std::vector<Words> expected;
  for (const std::string& reference : references) expected.push_back(SquadWords(reference));
  return BestOver(SquadWords(prediction), expected, /*empty_texts_are_equal=*/false);
}

AnswerScore SquadV2Score(std::string_view prediction, const std::vector<std::string>& references) {
  std::vector<Words> expected;
  for (const std::string& reference : references) {
    Words words = SquadWords(reference);
    if (!words.empty()) expected.push_back(std::move(words));
  }
  if (expected.empty()) expected.emplace_back();
  return BestOver(SquadWords(prediction), expected, /*empty_texts_are_equal=*/true);
}

}  // namespace scd
