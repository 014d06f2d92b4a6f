#include "eval/metrics/python_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Lower(std::string_view text) {
  return ToUtf8(PythonLower(ToCodePoints(text)));
}

// Expected values from CPython 3.11.
TEST(PythonTextTest, LowerCaseIsPythons) {
  EXPECT_EQ(Lower("ABC xyz ÄÖÜ ẞ ИЖ"), "abc xyz äöü ß иж");
  EXPECT_EQ(Lower("İI"), "i\u0307i");
  EXPECT_EQ(Lower("ǅ Ⅳ Ⓐ Ａ"), "ǆ ⅳ ⓐ ａ");
  EXPECT_EQ(Lower("ΟΔΟΣ"), "οδος");
  EXPECT_EQ(Lower("ΣΟΔΟΣ ΣΑΣ"), "σοδος σας");
  EXPECT_EQ(Lower("Σ"), "σ");
  EXPECT_EQ(Lower("1Σ"), "1σ");
  EXPECT_EQ(Lower("ΑΣΑ"), "ασα");
}

TEST(PythonTextTest, TheFinalSigmaLooksPastCaseIgnorableCharacters) {
  EXPECT_EQ(Lower("Α.Σ"), "α.ς");            // a full stop between
  EXPECT_EQ(Lower("Α\u0301Σ"), "α\u0301ς");  // a combining mark
  EXPECT_EQ(Lower("Α-Σ"), "α-σ");            // a hyphen ends the word
  EXPECT_EQ(Lower("ΑΣ\u00ad"), "ας\u00ad");  // a soft hyphen after it
  EXPECT_EQ(Lower("ΑΣ'Α"), "ασ'α");          // a letter after an apostrophe
  EXPECT_EQ(Lower("ⅠΣ"), "ⅰς");              // a cased number
  EXPECT_EQ(Lower("ªΣ"), "ªς");              // a cased letter without cases
  EXPECT_EQ(Lower("中Σ"), "中σ");            // a letter that is not cased
}

TEST(PythonTextTest, ClassesOfCharacters) {
  for (const char32_t c : {U'a', U'é', U'_', U'7', U'²', U'½', U'Ⅳ', U'中', U'ʰ', U'٣'}) {
    EXPECT_TRUE(IsPythonWord(c)) << static_cast<unsigned>(c);
  }
  for (const char32_t c : {U'\u0301', U'-', U' ', U'\u203f', U'\u200d', U'。'}) {
    EXPECT_FALSE(IsPythonWord(c)) << static_cast<unsigned>(c);
  }
  for (const char32_t c : {U' ', U'\t', U'\x1c', U'\x1f', U'\u0085', U'\u00a0', U'\u2028', U'\u3000'}) {
    EXPECT_TRUE(IsPythonSpace(c)) << static_cast<unsigned>(c);
  }
  for (const char32_t c : {U'\u200b', U'\ufeff', U'\u180e', U'\0'}) {
    EXPECT_FALSE(IsPythonSpace(c)) << static_cast<unsigned>(c);
  }
  EXPECT_TRUE(IsPythonDigit(U'٣'));
  EXPECT_FALSE(IsPythonDigit(U'²'));
}

TEST(PythonTextTest, SplitAndStrip) {
  EXPECT_THAT(PythonSplit(U"\u3000one\u2003two\x1cthree \n"), ElementsAre(U"one", U"two", U"three"));
  EXPECT_THAT(PythonSplit(U" \t"), IsEmpty());
  EXPECT_THAT(PythonSplit(U""), IsEmpty());
  EXPECT_EQ(PythonStrip(U"\u00a0 a b\x1d"), U"a b");
  EXPECT_EQ(PythonStrip(U" "), U"");
}

TEST(PythonTextTest, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(ToCodePoints("a\xffz\xe4\xb8"), U"a\ufffdz\ufffd");
  EXPECT_EQ(ToUtf8(ToCodePoints("中a😀")), "中a😀");
}

}  // namespace
}  // namespace scd
