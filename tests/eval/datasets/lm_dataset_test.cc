#include "eval/datasets/lm_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/model/tokenizer.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

Ids IdsOf(const IdsOrText& part) {
  return std::get<Ids>(part);
}

// A token for every byte.
TextWindows ByteWindows(std::int64_t prefix, std::int64_t continuation, Ids leading = {}) {
  TextWindows windows;
  windows.tokenize = [](std::string_view text) -> absl::StatusOr<Ids> {
    return Ids(text.begin(), text.end());
  };
  windows.leading_ids = std::move(leading);
  windows.prefix_tokens = prefix;
  windows.continuation_tokens = continuation;
  return windows;
}

class LmDatasetTest : public ::testing::Test {
 protected:
  absl::StatusOr<Dataset<LmItem>> Read(const std::string& text, const TextWindows& windows,
                                       std::optional<LmFormat> format = std::nullopt,
                                       ReadOptions options = {}) {
    testing::WriteFile(dir_.File("data"), text);
    return ReadLmDataset(dir_.File("data"), format, windows, options);
  }
  std::string Error(const std::string& text, const TextWindows& windows,
                    std::optional<LmFormat> format = std::nullopt) {
    const auto dataset = Read(text, windows, format);
    EXPECT_FALSE(dataset.ok()) << text;
    return std::string(dataset.status().message());
  }

  testing::TempDir dir_;
};

TEST_F(LmDatasetTest, WindowsFollowOneAnother) {
  const auto dataset = Read("abcdefghijk", ByteWindows(3, 2)).value();
  EXPECT_EQ(dataset.format, "text");
  ASSERT_EQ(dataset.items.size(), 2u);
  EXPECT_THAT(IdsOf(dataset.items[0].prefix), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(IdsOf(dataset.items[0].continuation), ElementsAre('d', 'e'));
  EXPECT_EQ(dataset.items[1].id, "token 5");
  EXPECT_THAT(IdsOf(dataset.items[1].prefix), ElementsAre('f', 'g', 'h'));
  EXPECT_EQ(Read("abcdefghijk", ByteWindows(3, 2), LmFormat::kText, {.limit = 1}).value().items.size(), 1u);
}

TEST_F(LmDatasetTest, EveryPrefixBeginsWithTheLeadingIds) {
  const auto dataset = Read("abcdef", ByteWindows(3, 1, {900})).value();
  ASSERT_EQ(dataset.items.size(), 2u);
  EXPECT_THAT(IdsOf(dataset.items[1].prefix), ElementsAre(900, 'd', 'e'));
  EXPECT_THAT(IdsOf(dataset.items[1].continuation), ElementsAre('f'));
}

TEST_F(LmDatasetTest, WindowsThatCannotBe) {
  EXPECT_THAT(Error("abcd", ByteWindows(3, 2)), HasSubstr("has 4 tokens, fewer than one window of 3 and 2"));
  EXPECT_THAT(Error("abcd", ByteWindows(1, 2, {900})), HasSubstr("each part needs one"));
  EXPECT_THAT(Error("abcd", ByteWindows(2, 0)), HasSubstr("each part needs one"));
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(Error("abcd", ByteWindows(most, most)), HasSubstr("fewer than one window"));
  EXPECT_THAT(Error("abcd", ByteWindows(1, most)), HasSubstr("fewer than one window"));
  EXPECT_THAT(Error("", ByteWindows(1, 1)), HasSubstr("has 0 tokens"));
}

TEST_F(LmDatasetTest, ATokenizersWindows) {
  const auto tokenizer = LoadTokenizer(testing::TestDataPath("tiny-llama")).value();
  const TextWindows windows = WindowsFor(*tokenizer, 8, 4).value();
  const std::string path = testing::TestDataPath("eval/text.txt");
  const auto dataset = ReadLmDataset(path, std::nullopt, windows, {}).value();
  ASSERT_GE(dataset.items.size(), 3u);
  // Together the windows are the text from its start on, whatever leads each of them.
  Ids all;
  for (const LmItem& item : dataset.items) {
    const Ids prefix = IdsOf(item.prefix), continuation = IdsOf(item.continuation);
    ASSERT_EQ(prefix.size(), 8u);
    ASSERT_EQ(continuation.size(), 4u);
    EXPECT_EQ(Ids(prefix.begin(), prefix.begin() + static_cast<long>(windows.leading_ids.size())),
              windows.leading_ids);
    all.insert(all.end(), prefix.begin() + static_cast<long>(windows.leading_ids.size()), prefix.end());
    all.insert(all.end(), continuation.begin(), continuation.end());
  }
  Ids whole = tokenizer->Encode(testing::ReadFile(path), {.add_default_tokens = false}).value();
  ASSERT_GE(whole.size(), all.size());
  whole.resize(all.size());
  EXPECT_EQ(all, whole);
  const Ids with_defaults = tokenizer->Encode("a", {}).value();
  EXPECT_EQ(windows.leading_ids.size(),
            with_defaults.size() - tokenizer->Encode("a", {.add_default_tokens = false}).value().size());

  testing::WriteFile(dir_.File("bad.txt"), "not \xff text");
  EXPECT_THAT(ReadLmDataset(dir_.File("bad.txt"), std::nullopt, windows, {}).status().message(),
              HasSubstr("bad.txt: "));
}

TEST_F(LmDatasetTest, Jsonl) {
  const auto dataset =
      ReadLmDataset(testing::TestDataPath("eval/lm.jsonl"), std::nullopt, ByteWindows(3, 2), {}).value();
  EXPECT_EQ(dataset.format, "jsonl");
  ASSERT_EQ(dataset.items.size(), 2u);
  EXPECT_EQ(dataset.items[0].id, "line 1");
  EXPECT_THAT(IdsOf(dataset.items[0].prefix), ElementsAre(5, 6, 7));
  EXPECT_THAT(IdsOf(dataset.items[0].continuation), ElementsAre(8, 9));
  EXPECT_EQ(dataset.items[1].id, "w");
  EXPECT_EQ(std::get<std::string>(dataset.items[1].continuation), " lived on the hill.");
}

TEST_F(LmDatasetTest, MalformedLines) {
  const auto malformed = [&](const std::string& line) {
    const auto dataset = Read("{\"prefix_ids\": [1], \"continuation_ids\": [2]}\n" + line, ByteWindows(1, 1),
                              std::nullopt, {.on_error = OnError::kSkip});
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    if (!dataset.ok() || dataset->malformed.size() != 1 || dataset->items.size() != 1)
      return std::string("not one");
    return dataset->malformed[0].path + ": " + dataset->malformed[0].message;
  };
  EXPECT_EQ(malformed(R"({"prefix_ids": [1]})"),
            "line 2: expected one of \"continuation_ids\" and \"continuation\"");
  EXPECT_EQ(malformed(R"({"prefix_ids": [1], "prefix": "a", "continuation": "b"})"),
            "line 2: expected one of \"prefix_ids\" and \"prefix\"");
  EXPECT_EQ(malformed(R"({"prefix_ids": [], "continuation_ids": [1]})"),
            "line 2.prefix_ids: has no token ids");
  for (const char* id : {"-1", "1.0", "2147483648", "18446744073709551615", "\"1\"", "null", "1e3"}) {
    EXPECT_EQ(malformed(std::string("{\"prefix_ids\": [3, ") + id + "], \"continuation_ids\": [1]}"),
              "line 2.prefix_ids[1]: expected a token id");
  }
  EXPECT_EQ(malformed(R"({"prefix_ids": "abc", "continuation_ids": [1]})"),
            "line 2.prefix_ids: expected a list of token ids, got a string");
  EXPECT_EQ(malformed(R"({"prefix": "", "continuation": "b"})"), "line 2.prefix: empty");
  EXPECT_THAT(malformed("{\"prefix_ids\": [NaN]}"), HasSubstr("line 2: not valid JSON"));
  EXPECT_THAT(malformed(R"({"prefix_ids": [1], "continuation_ids": [2])"),
              HasSubstr("line 2: not valid JSON"));

  EXPECT_THAT(
      Error("{\"prefix_ids\": [1], \"continuation_ids\": [2]}\n{\"prefix_ids\": 3}", ByteWindows(1, 1)),
      HasSubstr("record 1: line 2.prefix_ids: expected a list"));
}

TEST_F(LmDatasetTest, ALayoutThatIsNotClearIsNotGuessed) {
  EXPECT_THAT(Error("{\"other\": 1}\n", ByteWindows(1, 1)), HasSubstr("name its format: text, jsonl"));
  EXPECT_THAT(Error("{curly text}\n", ByteWindows(1, 1)), HasSubstr("name its format: text, jsonl"));
  EXPECT_TRUE(Read("{curly text}\n", ByteWindows(1, 1), LmFormat::kText).ok());
  EXPECT_THAT(Error("plain", ByteWindows(1, 1), LmFormat::kJsonl),
              HasSubstr("record 0: line 1: not valid JSON"));
  EXPECT_THAT(Error("\n", ByteWindows(1, 1), LmFormat::kJsonl), HasSubstr("holds no window"));
  for (const std::string& name : LmFormatNames()) EXPECT_EQ(LmFormatName(ParseLmFormat(name).value()), name);
  EXPECT_FALSE(ParseLmFormat("wikitext"));
}

}  // namespace
}  // namespace scd
