#include "common/model/unicode.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "common/model/bpe_alphabet.h"

namespace scd {
namespace {

TEST(Utf8, TellsCharactersFromOtherBytes) {
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3), std::string("é日🙂"), std::string("\xF4\x8F\xBF\xBF")}) {
    EXPECT_TRUE(IsValidUtf8(text));
    EXPECT_TRUE(CheckUtf8(text).ok());
  }
  for (const char* text :
       {"\x80", "\xC1\x81", "\xE0\x9F\x80", "\xED\xA0\x80", "\xF0\x8F\x80\x80", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xC3", "\xE6\x97", "\xF0\x9F\x99", "\xC3("}) {
    EXPECT_FALSE(IsValidUtf8(text));
  }
  EXPECT_NE(CheckUtf8("ab\xFF").message().find("0xff at offset 2"), std::string::npos) << CheckUtf8("ab\xFF");
}

TEST(Utf8, DecodesWhatItEncodes) {
  for (const char32_t c : {U'\0', U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xD7FF', U'\xE000', U'\xFFFF',
                           U'\x10000', U'\x10FFFF'}) {
    std::string bytes;
    AppendUtf8(c, &bytes);
    EXPECT_TRUE(IsValidUtf8(bytes));
    EXPECT_EQ(Utf8Length(bytes[0]), bytes.size());
    EXPECT_EQ(DecodeUtf8(bytes), c);
  }
}

TEST(Utf8, ReplacesMaximalParts) {
  const auto lossy = [](std::string_view bytes) {
    std::string out;
    EXPECT_EQ(AppendLossyUtf8(bytes, true, &out), 0u);
    return out;
  };
  EXPECT_EQ(lossy("a\xFF\xFE"
                  "b"),
            "a\uFFFD\uFFFDb");
  EXPECT_EQ(lossy("\xE3\x81"
                  "a"),
            "\uFFFDa");
  EXPECT_EQ(lossy("\xE3\x81"), "\uFFFD");
  EXPECT_EQ(lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossy("\xF0\x9F\x99\xF0\x9F\x99\x82"), "\uFFFD🙂");
  std::string out;
  EXPECT_EQ(AppendLossyUtf8("é\xF0\x9F\x99", false, &out), 3u);
  EXPECT_EQ(out, "é");
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(*ToNfc("e\u0301"), "é");
  EXPECT_EQ(*ToNfc("é"), "é");
  EXPECT_EQ(*ToNfc("a\u0301\u0323"), "ạ\u0301");  // the dot below comes first
  EXPECT_EQ(*ToNfc("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(*ToNfc("\u212B"), "Å");
  EXPECT_EQ(*ToNfc("ﬁ½²"), "ﬁ½²");  // compatibility characters stay
  EXPECT_EQ(*ToNfc(""), "");
}

TEST(Nfc, SortsLongRunsOfMarksFast) {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  const auto start = std::chrono::steady_clock::now();
  const auto composed = ToNfc(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_TRUE(composed.ok());
  EXPECT_TRUE(composed->starts_with("ạ\u0323\u0323"));
}

TEST(CharacterClasses, FollowUnicode) {
  for (const char32_t c : {U'0', U'½', U'²', U'Ⅷ', U'３', U'٣'}) EXPECT_TRUE(IsNumeric(c));
  for (const char32_t c : {U'a', U'一', U' ', U'.'}) EXPECT_FALSE(IsNumeric(c));
  for (const char32_t c :
       {U' ', U'\t', U'\x0B', U'\x85', U'\xA0', U'\u1680', U'\u2003', U'\u2028', U'\u3000'})
    EXPECT_TRUE(IsWhitespace(c));
  for (const char32_t c : {U'a', U'\u180E', U'\u200B', U'\uFEFF', U'\x1C'}) EXPECT_FALSE(IsWhitespace(c));
  for (const char32_t c : {U'a', U'_', U'é', U'日', U'\u0301', U'7'}) EXPECT_TRUE(IsWordCharacter(c));
  for (const char32_t c : {U'-', U' ', U'½', U'🙂'}) EXPECT_FALSE(IsWordCharacter(c));
}

TEST(ByteLevelAlphabet, IsABijection) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendUtf8(ByteLevelCharacter(static_cast<std::uint8_t>(byte)), &character);
    EXPECT_EQ(ByteLevelDecode(character), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(ByteLevelDecode("Ġthe"), " the");
  EXPECT_EQ(ByteLevelDecode("Ċ"), "\n");
  EXPECT_FALSE(ByteLevelDecode("日").has_value());
  EXPECT_FALSE(ByteLevelDecode("a b").has_value());
}

}  // namespace
}  // namespace scd
