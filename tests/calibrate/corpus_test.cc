#include "calibrate/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/model/tokenizer.h"
#include "tests/calibrate/tiny_pair.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CorpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ = LoadTokenizer(testing::TinyLlama()).value();
    rules_.tokenizer = tokenizer_.get();
    rules_.vocab_size = 1000;
    rules_.untranslatable_ids = {500};
    rules_.min_tokens = 3;
    rules_.max_tokens = 8;
  }

  absl::Status AddJsonl(Corpus& corpus, const std::string& text, std::int64_t limit = 0) {
    const std::string path = dir_.File("corpus.jsonl");
    testing::WriteFile(path, text);
    return corpus.AddJsonl({.kind = CorpusSourceKind::kJsonl, .path = path, .limit = limit});
  }
  std::string Error(const std::string& text) {
    Corpus corpus(rules_, 10);
    return std::string(AddJsonl(corpus, text).message());
  }

  testing::TempDir dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
  CorpusRules rules_;
};

TEST_F(CorpusTest, TextAndIdsAreReadAndCut) {
  Corpus corpus(rules_, 10);
  ASSERT_TRUE(
      AddJsonl(corpus,
               "{\"ids\": [5, 6, 7, 8]}\n\n{\"kind\": \"x\", \"text\": \"hello there, world of words\"}\n"
               "{\"ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}")
          .ok());
  ASSERT_EQ(corpus.prefixes().size(), 3u);
  EXPECT_THAT(corpus.prefixes()[0], ElementsAre(5, 6, 7, 8));
  std::vector<std::int32_t> text = tokenizer_->Encode("hello there, world of words", {}).value();
  text.resize(std::min<std::size_t>(text.size(), 8));
  EXPECT_EQ(corpus.prefixes()[1], text);
  EXPECT_EQ(corpus.prefixes()[2].size(), 8u);
  EXPECT_EQ(corpus.description(), "3 prefixes of corpus.jsonl");
}

TEST_F(CorpusTest, HostileLinesAreNamedByFileAndLine) {
  const std::string good = "{\"ids\": [5, 6, 7]}\n";
  EXPECT_THAT(Error(good + "{\"ids\": [5,\n"), HasSubstr("corpus.jsonl:2"));
  EXPECT_THAT(Error(good + good + "[1, 2]\n"), HasSubstr("corpus.jsonl:3"));
  EXPECT_THAT(Error("{\"other\": 1}\n"), HasSubstr("corpus.jsonl:1: expected one of"));
  EXPECT_THAT(Error("{\"ids\": [1, 2, 3], \"text\": \"x\"}\n"), HasSubstr("expected one of"));
  EXPECT_THAT(Error("{\"ids\": [1, 2, -3]}\n"), HasSubstr("ids[2]"));
  EXPECT_THAT(Error("{\"ids\": [1, 2.5, 3]}\n"), HasSubstr("ids[1]"));
  EXPECT_THAT(Error("{\"ids\": [1, 18446744073709551615]}\n"), HasSubstr("ids[1]"));
  EXPECT_THAT(Error("{\"ids\": [1, 2, 1000]}\n"), HasSubstr("ids[2]: 1000 is outside"));
  EXPECT_THAT(Error("{\"ids\": \"abc\"}\n"), HasSubstr("ids"));
  EXPECT_THAT(Error("{\"text\": 7}\n"), HasSubstr("text"));
  EXPECT_THAT(Error("{\"text\": \"\xff\xfe\"}\n"), HasSubstr("corpus.jsonl:1"));
  EXPECT_THAT(Error(std::string(1 << 16, '[') + "\n"), HasSubstr("corpus.jsonl:1"));
  EXPECT_THAT(Error("{\"text\": \"" + std::string(5 << 20, 'a') + "\"}\n"), HasSubstr("longer than"));
}

TEST_F(CorpusTest, ShortAndUntranslatablePrefixesAreLeftOutAndCounted) {
  Corpus corpus(rules_, 10);
  ASSERT_TRUE(
      AddJsonl(corpus, "{\"ids\": [1, 2]}\n{\"ids\": []}\n{\"ids\": [1, 500, 3]}\n{\"ids\": [1, 2, 3]}\n")
          .ok());
  EXPECT_EQ(corpus.prefixes().size(), 1u);
  EXPECT_EQ(corpus.num_too_short(), 2);
  EXPECT_EQ(corpus.num_untranslatable(), 1);
}

TEST_F(CorpusTest, LimitsOfTheSourceAndOfTheCorpus) {
  const std::string lines = testing::RandomIdsJsonl(6, 5, 1);
  Corpus limited(rules_, 10);
  ASSERT_TRUE(AddJsonl(limited, lines, 4).ok());
  EXPECT_EQ(limited.prefixes().size(), 4u);
  Corpus full(rules_, 3);
  // What no room is left for is not read: the broken line is never seen.
  ASSERT_TRUE(AddJsonl(full, lines + "broken").ok());
  EXPECT_EQ(full.prefixes().size(), 3u);
  EXPECT_TRUE(full.full());
}

TEST_F(CorpusTest, PlainTextIsCutAtLineEnds) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "line number " + std::to_string(i) + "\n";
  testing::WriteFile(dir_.File("book.txt"), text + std::string(200, 'x') + "\xc3\xa9");
  Corpus corpus(rules_, 100);
  ASSERT_TRUE(corpus.AddText({.kind = CorpusSourceKind::kText, .path = dir_.File("book.txt")}).ok());
  ASSERT_GT(corpus.prefixes().size(), 5u);
  for (const auto& ids : corpus.prefixes()) EXPECT_LE(ids.size(), 8u);
  EXPECT_THAT(tokenizer_->Decode(corpus.prefixes()[1], false), HasSubstr("line number"));

  testing::WriteFile(dir_.File("bad.txt"), "good\nbad \xff here\n");
  const absl::Status status = corpus.AddText({.kind = CorpusSourceKind::kText, .path = dir_.File("bad.txt")});
  EXPECT_THAT(status.message(), HasSubstr("bad.txt: text at byte 0"));
  EXPECT_TRUE(
      absl::IsNotFound(corpus.AddText({.kind = CorpusSourceKind::kText, .path = dir_.File("none.txt")})));
}

TEST_F(CorpusTest, TheDigestFollowsIdsAndOrder) {
  const auto digest = [&](const std::string& text) {
    Corpus corpus(rules_, 10);
    EXPECT_TRUE(AddJsonl(corpus, text).ok());
    return corpus.digest();
  };
  const std::string a = "{\"ids\": [5, 6, 7]}\n", b = "{\"ids\": [5, 6, 8]}\n";
  EXPECT_EQ(digest(a + b), digest(a + b));
  EXPECT_NE(digest(a + b), digest(b + a));
  EXPECT_NE(digest(a), digest(a + a));
}

}  // namespace
}  // namespace scd
