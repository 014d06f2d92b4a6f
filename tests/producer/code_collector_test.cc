#include "producer/code_collector.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/payload_format.h"
#include "common/wire/transfer_checker.h"
#include "common/store/stored_codes.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

LayerPlan Plan() {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 3, .rank_v = 5},
                 {.treatment = LayerTreatment::kPatch, .rank_h = 7}};
  return plan;
}

// Every number names its column, token and place.
LayerCode Code(const CodeColumn& column, std::int64_t first_token, std::int64_t num_tokens) {
  LayerCode code{.layer = column.layer,
                 .kind = column.kind,
                 .first_token = first_token,
                 .num_tokens = num_tokens,
                 .rank = column.rank,
                 .codec = Codec::kBF16,
                 .payload = {}};
  for (std::int64_t token = first_token; token < first_token + num_tokens; ++token) {
    for (std::int64_t i = 0; i < column.rank; ++i) {
      code.payload += static_cast<char>(token);
      code.payload += static_cast<char>(10 * column.layer + 20 * static_cast<int>(column.kind) + i);
    }
  }
  return code;
}

// The blocks of tokens [1, end), collected from chunks of the given ends.
std::vector<std::shared_ptr<const CodeBlock>> Collect(const std::vector<std::int64_t>& chunk_ends,
                                                      std::int64_t block_tokens) {
  CodeCollector collector(Plan(), block_tokens, 1);
  std::vector<std::shared_ptr<const CodeBlock>> blocks;
  std::int64_t begin = 1;
  for (const std::int64_t end : chunk_ends) {
    for (const CodeColumn& column : PlanColumns(Plan())) {
      EXPECT_TRUE(collector.TakeBlocks().empty());  // not every column is there yet
      collector.Add(Code(column, begin, end - begin));
    }
    for (auto& block : collector.TakeBlocks()) blocks.push_back(std::move(block));
    begin = end;
  }
  return blocks;
}

TEST(CodeCollectorTest, BlocksDoNotDependOnChunks) {
  const auto expected = Collect({41}, 8);
  ASSERT_EQ(expected.size(), 5u);
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{9, 17, 25, 33, 41}, {2, 3, 20, 41}, {16, 32, 41}, {41, 44}}) {
    const auto blocks = Collect(ends, 8);
    ASSERT_EQ(blocks.size(), 5u);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i]->num_tokens, i == 0 ? 7 : 8);  // up to a multiple of the block
      EXPECT_EQ(blocks[i]->payloads, expected[i]->payloads);
      EXPECT_EQ(blocks[i]->payloads[0].size(), blocks[i]->num_tokens * 6);
    }
  }
  EXPECT_TRUE(Collect({7}, 8).empty());
}

TEST(StoredCodeReaderTest, GivesBackWhatWasCollected) {
  const auto blocks = Collect({41}, 8);
  for (const std::int64_t max_payload : {1, 100, 200, 1 << 20}) {
    StoredCodeReader reader(Plan(), {1, blocks}, max_payload);
    TransferChecker checker(Plan(), 1, 40);
    LayerCode code;
    std::string joined;
    std::string expected;
    std::size_t num_codes = 0;
    while (reader.Next(&code)) {
      ++num_codes;
      ASSERT_TRUE(checker.Accept(code).ok());
      EXPECT_LE(code.payload.size(), std::max<std::size_t>(static_cast<std::size_t>(max_payload), 8 * 7 * 2));
      joined += code.payload;
    }
    for (const CodeColumn& column : PlanColumns(Plan())) expected += Code(column, 1, 39).payload;
    EXPECT_TRUE(checker.complete());
    EXPECT_EQ(joined, expected);
    EXPECT_EQ(num_codes, max_payload == 1 ? 15u : max_payload == 1 << 20 ? 3u : num_codes);
  }
}

// A frame's granules are counted from its first token: what does not end with one ends its frame.
TEST(StoredCodeReaderTest, APartOfAGranuleEndsItsCode) {
  LayerPlan plan = Plan();
  plan.codec = Codec::kInt8;
  CodeCollector collector(plan, 32, 5);
  for (const CodeColumn& column : PlanColumns(plan)) {
    for (const auto& [begin, end] : {std::pair{5, 32}, std::pair{32, 128}}) {
      LayerCode code = Code(column, begin, end - begin);
      code.codec = Codec::kInt8;
      code.payload.assign(
          static_cast<std::size_t>(PayloadBytes(Codec::kInt8, column.kind, end - begin, column.rank)), 'x');
      collector.Add(code);
    }
  }
  StoredCodeReader reader(plan, {5, collector.TakeBlocks()}, 1 << 20);
  TransferChecker checker(plan, 5, 128);
  LayerCode code;
  std::vector<std::int64_t> k_tokens;
  while (reader.Next(&code)) {
    ASSERT_TRUE(checker.Accept(code).ok()) << checker.Accept(code);
    EXPECT_EQ(code.payload.size(),
              static_cast<std::size_t>(PayloadBytes(code.codec, code.kind, code.num_tokens, code.rank)));
    if (code.kind == CodeKind::kK) k_tokens.push_back(code.num_tokens);
  }
  EXPECT_TRUE(checker.complete());
  EXPECT_EQ(k_tokens, (std::vector<std::int64_t>{27, 96}));
}

TEST(StoredCodeReaderTest, NothingStoredIsNothingRead) {
  StoredCodeReader reader(Plan(), {1, {}}, 1 << 20);
  LayerCode code;
  EXPECT_FALSE(reader.Next(&code));
}

}  // namespace
}  // namespace scd
