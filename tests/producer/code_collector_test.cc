#include "producer/code_collector.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/config/entropy_tables.h"
#include "common/io/digest.h"
#include "common/store/memory_code_store.h"
#include "common/store/stored_codes.h"
#include "common/wire/entropy_coder.h"
#include "common/wire/payload_format.h"
#include "common/wire/transfer_checker.h"
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

Digest Key(int i) {
  return DigestBuilder("test").AddInt(i).Finish();
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

// Payloads of no fixed size are cut between their granules.
TEST(CodeCollectorTest, EntropyCodedBlocksDoNotDependOnChunks) {
  LayerPlan plan;
  plan.layers = {{.treatment = LayerTreatment::kReuse, .rank_k = 3, .rank_v = 3}};
  plan.codec = Codec::kEntropy;
  const std::vector<float> steps(3, 0.5f);
  std::vector<std::int32_t> frequencies;
  for (int column = 0; column < 3; ++column) {
    const std::vector<std::int32_t> row = FitFrequencies(std::vector<std::int64_t>(kEntropySymbols, 1));
    frequencies.insert(frequencies.end(), row.begin(), row.end());
  }
  const auto coder = EntropyCoder::Create({.steps = steps, .frequencies = frequencies});
  ASSERT_TRUE(coder.ok()) << coder.status();
  std::vector<float> rows(3 * 128);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>((i * 29) % 60) - 30.f;
  // Rows larger than any symbol take more bytes.
  for (std::size_t i = 100; i < 120; ++i) rows[i] = 5000.f;

  const auto collect = [&](const std::vector<std::int64_t>& ends, std::int64_t block_tokens) {
    CodeCollector collector(plan, block_tokens, 5);
    std::int64_t begin = 5;
    std::vector<std::shared_ptr<const CodeBlock>> blocks;
    for (const std::int64_t end : ends) {
      for (const CodeColumn& column : PlanColumns(plan)) {
        auto payload = (*coder)->Encode(rows.data() + 3 * begin, end - begin);
        EXPECT_TRUE(payload.ok()) << payload.status();
        collector.Add({.layer = column.layer,
                       .kind = column.kind,
                       .first_token = begin,
                       .num_tokens = end - begin,
                       .rank = 3,
                       .codec = Codec::kEntropy,
                       .payload = *std::move(payload)});
      }
      begin = end;
      for (auto& block : collector.TakeBlocks()) blocks.push_back(std::move(block));
    }
    return blocks;
  };
  ASSERT_TRUE(CodeCollector::CanCut(plan, 32));
  const auto expected = collect({32, 64, 96, 128}, 32);
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_NE(expected[1]->payloads[0].size(), expected[2]->payloads[0].size());
  const auto joined = collect({32, 128}, 32);
  ASSERT_EQ(joined.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(joined[i]->payloads, expected[i]->payloads);
  EXPECT_EQ(collect({32, 128}, 64).size(), 2u);

  // What the reader joins again decodes to what one payload does.
  MemoryCodeStore store(1 << 20);
  const std::vector<Digest> keys = {Key(0), Key(1), Key(2), Key(3)};
  for (std::size_t i = 0; i < 4; ++i) store.Insert(absl::MakeConstSpan(keys).first(i + 1), expected[i]);
  const StoredCodes codes = FindCodes(store, plan, 5, keys, 32);
  EXPECT_EQ(codes.num_tokens(), 123);
  StoredCodeReader reader(plan, codes, 1 << 20);
  TransferChecker checker(plan, 5, 128);
  LayerCode code;
  while (reader.Next(&code)) {
    ASSERT_TRUE(checker.Accept(code).ok()) << checker.Accept(code);
    std::vector<float> decoded(static_cast<std::size_t>(3 * code.num_tokens));
    ASSERT_TRUE((*coder)->Decode(code.payload, code.num_tokens, 0, code.num_tokens, decoded.data()).ok());
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      EXPECT_NEAR(decoded[i], rows[static_cast<std::size_t>(3 * code.first_token) + i], 0.25f);
    }
  }
  EXPECT_TRUE(checker.complete());
}

// A store may hold anything under a key: files and servers are outside.
TEST(FindCodesTest, GivesOnlyWhatThePlansReaderCanRead) {
  const auto blocks = Collect({41}, 8);
  const std::vector<Digest> keys = {Key(0), Key(1), Key(2), Key(3), Key(4)};
  const auto found = [&](std::size_t changed, const std::shared_ptr<const CodeBlock>& block,
                         const LayerPlan& plan) {
    MemoryCodeStore store(1 << 20);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      store.Insert(absl::MakeConstSpan(keys).first(i + 1), i == changed ? block : blocks[i]);
    }
    return FindCodes(store, plan, 1, keys, 8).blocks.size();
  };
  EXPECT_EQ(found(9, nullptr, Plan()), 5u);
  CodeBlock block = *blocks[2];
  const auto variant = [&block] { return std::make_shared<const CodeBlock>(block); };
  block.num_tokens = 7;
  EXPECT_EQ(found(2, variant(), Plan()), 2u);
  block = *blocks[2];
  block.payloads.pop_back();
  EXPECT_EQ(found(2, variant(), Plan()), 2u);
  block = *blocks[2];
  block.payloads.push_back("x");
  EXPECT_EQ(found(2, variant(), Plan()), 2u);
  block = *blocks[2];
  block.payloads[1].remove_suffix(1);
  EXPECT_EQ(found(2, variant(), Plan()), 2u);
  EXPECT_EQ(found(0, blocks[1], Plan()), 0u);
  LayerPlan entropy = Plan();
  entropy.codec = Codec::kEntropy;
  EXPECT_EQ(found(9, nullptr, entropy), 0u);
}

TEST(StoredCodeReaderTest, NothingStoredIsNothingRead) {
  StoredCodeReader reader(Plan(), {1, {}}, 1 << 20);
  LayerCode code;
  EXPECT_FALSE(reader.Next(&code));
}

}  // namespace
}  // namespace scd
