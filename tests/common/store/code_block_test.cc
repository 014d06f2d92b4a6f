#include "common/store/code_block.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"

namespace scd {
namespace {

using ::testing::ElementsAre;

using testing::NumberedBlock;
using testing::Plan;
using testing::SameBlock;

TEST(PlanColumnsTest, AreInTheOrderOfSending) {
  std::vector<std::string> names;
  for (const CodeColumn& column : PlanColumns(Plan())) {
    names.push_back(std::to_string(column.layer) + std::string(CodeKindName(column.kind)) +
                    std::to_string(column.rank));
  }
  EXPECT_THAT(names, ElementsAre("0k4", "0v6", "1h8"));
}

TEST(CodeBlockTest, OwnsItsPayloads) {
  const auto block = MakeCodeBlock(3, {"a", "", std::string(1000, 'b')}, absl::FromUnixMicros(1234567));
  EXPECT_THAT(block->payloads, ElementsAre("a", "", std::string(1000, 'b')));
  EXPECT_EQ(block->created, absl::FromUnixMillis(1234));
  EXPECT_GT(block->size_bytes(), 1000);
}

TEST(CodeBlockTest, ACopyOutlivesWhatItWasTakenFrom) {
  auto original = NumberedBlock(5);
  const auto copy = CopyToMemory(*original);
  EXPECT_TRUE(SameBlock(*copy, *original));
  EXPECT_NE(copy->payloads[0].data(), original->payloads[0].data());
  original.reset();
  EXPECT_TRUE(SameBlock(*copy, *NumberedBlock(5)));
}

}  // namespace
}  // namespace scd
