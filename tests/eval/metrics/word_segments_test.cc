#include "eval/metrics/word_segments.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/metrics/python_text.h"

namespace scd {
namespace {

std::string Joined(std::string_view text) {
  std::string joined;
  for (const std::u32string& word : WordSegments(ToCodePoints(text))) joined.append("|").append(ToUtf8(word));
  return joined;
}

// Expected values from NLTK 3.9.1's word_tokenize.
TEST(WordSegmentsTest, WordsAreThoseOfThePennTreebank) {
  EXPECT_EQ(Joined("it's the dogs' bowl"), "|it|'s|the|dogs|'|bowl");
  EXPECT_EQ(Joined("they'll can't we've i'd"), "|they|'ll|ca|n't|we|'ve|i|'d");
  EXPECT_EQ(Joined("cannot gonna wanna go"), "|can|not|gon|na|wan|na|go");
  EXPECT_EQ(Joined("'tis 'twas so"), "|'t|is|'t|was|so");
  EXPECT_EQ(Joined("\"a quiet word.\""), "|``|a|quiet|word|.|''");
  EXPECT_EQ(Joined("he said \"go\" (now)"), "|he|said|``|go|''|(|now|)");
  EXPECT_EQ(Joined("((a) [b] {c} <d>)"), "|(|(|a|)|[|b|]|{|c|}|<|d|>|)");
  EXPECT_EQ(Joined("a,b, c 1,000,"), "|a|,|b|,|c|1,000|,");
  EXPECT_EQ(Joined("wait... what?! no"), "|wait|...|what|?|!|no");
  EXPECT_EQ(Joined("he left. she stayed."), "|he|left|.|she|stayed|.");
  EXPECT_EQ(Joined("(see note.)"), "|(|see|note|.|)");
  EXPECT_EQ(Joined("dr. tamm and mr. o'neil"), "|dr.|tamm|and|mr.|o'neil");
  EXPECT_EQ(Joined("j. r. tamm"), "|j.|r.|tamm");
  EXPECT_EQ(Joined("the u.s. navy"), "|the|u.s.|navy");
  EXPECT_EQ(Joined("3. first 2. 4"), "|3.|first|2|.|4");
  EXPECT_EQ(Joined("«eau» ‘so „da"), "|«|eau|»|‘|so|„|da");
  EXPECT_EQ(Joined("tom & sons #1 @home $5 50%; ok"), "|tom|&|sons|#|1|@|home|$|5|50|%|;|ok");
  EXPECT_EQ(Joined("'' '"), "|''|'");
  EXPECT_EQ(Joined("end.\" next"), "|end|.|''|next");
  EXPECT_EQ(Joined("rock 'n' roll"), "|rock|'n|'|roll");
  EXPECT_EQ(Joined("d'ye more'n gimme"), "|d|'ye|more|'n|gim|me");
  EXPECT_EQ(Joined("''quoted'' text"), "|''|quoted|''|text");
  EXPECT_EQ(Joined("x' y'z' 's"), "|x|'|y|'|z|'|'s");
  EXPECT_EQ(Joined("  spaced \t out \u3000"), "|spaced|out");
  EXPECT_EQ(Joined(""), "");
  EXPECT_EQ(Joined("é'é n't"), "|é|'|é|n't");
}

}  // namespace
}  // namespace scd
