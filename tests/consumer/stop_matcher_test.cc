#include "consumer/stop_matcher.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace scd {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatcher::Piece out = matcher.Add(piece);
    outcome.text += out.text;
    if (out.stopped) {
      outcome.stopped = true;
      return outcome;
    }
  }
  outcome.text += matcher.Finish();
  return outcome;
}

TEST(StopMatcherTest, WithoutStopsEverythingPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Add("abc").text, "abc");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, EndsBeforeTheStopWithinOnePiece) {
  EXPECT_EQ(Feed({"\n\n"}, {"one\n\ntwo"}), (Outcome{"one", true}));
}

TEST(StopMatcherTest, EndsBeforeAStopAcrossPieces) {
  EXPECT_EQ(Feed({"Question:"}, {"Paris.\nQue", "st", "ion", ": next"}), (Outcome{"Paris.\n", true}));
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayStillMatch) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.Add("say ST").text, "say ");
  EXPECT_EQ(matcher.Add("R").text, "STR");
  EXPECT_EQ(matcher.Add("SSTO").text, "S");
  const StopMatcher::Piece last = matcher.Add("P!");
  EXPECT_EQ(last.text, "");
  EXPECT_TRUE(last.stopped);
}

TEST(StopMatcherTest, RepeatedPrefixIsNotLost) {
  EXPECT_EQ(Feed({"aab"}, {"a", "a", "a", "b"}), (Outcome{"a", true}));
  EXPECT_EQ(Feed({"abab"}, {"ab", "a", "c"}), (Outcome{"abac", false}));
}

TEST(StopMatcherTest, FirstToBeCompleteWins) {
  EXPECT_EQ(Feed({"abcd", "bc"}, {"abcd"}), (Outcome{"a", true}));
  EXPECT_EQ(Feed({"bc", "abc"}, {"xabc"}), (Outcome{"x", true}));
}

TEST(StopMatcherTest, FinishGivesBackWhatNeverMatched) {
  EXPECT_EQ(Feed({"END"}, {"the EN"}), (Outcome{"the EN", false}));
}

TEST(StopMatcherTest, CharactersOfSeveralBytes) {
  EXPECT_EQ(Feed({"。"}, {"好", "。", "坏"}), (Outcome{"好", true}));
  // Both begin with the same bytes as the stop.
  StopMatcher matcher({"。"});
  EXPECT_EQ(matcher.Add("、").text, "、");
}

TEST(StopMatcherTest, CutsOfTheTextDoNotMatter) {
  std::mt19937 random(7);
  const auto letters = [&random](std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = 0; i < 1 + random() % 3; ++i) stops.push_back(letters(1 + random() % 5));
    const std::string text = letters(random() % 30);
    std::vector<std::string> by_letter;
    for (const char c : text) by_letter.emplace_back(1, c);
    std::vector<std::string> pieces;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = 1 + random() % 7;
      pieces.push_back(text.substr(i, length));
      i += length;
    }
    const Outcome expected = Feed(stops, by_letter);
    stopped += expected.stopped;
    ASSERT_EQ(Feed(stops, pieces), expected) << text;
    ASSERT_EQ(Feed(stops, {text}), expected) << text;
    if (!expected.stopped) {
      ASSERT_EQ(expected.text, text);
      for (const std::string& stop : stops) ASSERT_EQ(text.find(stop), std::string::npos);
    }
  }
  EXPECT_GT(stopped, 200);
  EXPECT_LT(stopped, 1900);
}

}  // namespace
}  // namespace scd
