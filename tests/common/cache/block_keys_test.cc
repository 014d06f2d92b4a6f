#include "common/cache/block_keys.h"

#include <set>

#include "gtest/gtest.h"

namespace scd {
namespace {

Digest Seed(int value) {
  return DigestBuilder("test").AddInt(value).Finish();
}

TEST(BlockKeysTest, OneKeyForEachWholeBlock) {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(BlockKeys(Seed(1), tokens, 3).size(), 2u);
  EXPECT_EQ(BlockKeys(Seed(1), tokens, 7).size(), 1u);
  EXPECT_TRUE(BlockKeys(Seed(1), tokens, 8).empty());
  EXPECT_TRUE(BlockKeys(Seed(1), {}, 1).empty());
  EXPECT_EQ(BlockKeys(Seed(1), tokens, 1).size(), 7u);
}

TEST(BlockKeysTest, AKeyDependsOnSeedAndOnEveryTokenUpToItsEnd) {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6};
  const std::vector<Digest> keys = BlockKeys(Seed(1), tokens, 2);
  for (std::size_t changed = 0; changed < tokens.size(); ++changed) {
    std::vector<std::int32_t> other = tokens;
    ++other[changed];
    const std::vector<Digest> others = BlockKeys(Seed(1), other, 2);
    for (std::size_t block = 0; block < keys.size(); ++block) {
      EXPECT_EQ(keys[block] == others[block], block < changed / 2) << changed << " " << block;
    }
  }
  for (const Digest& key : BlockKeys(Seed(2), tokens, 2)) {
    for (const Digest& own : keys) EXPECT_NE(key, own);
  }
}

TEST(BlockKeysTest, LongerPromptsAndOtherBlockSizesShareOnlyWhatIsTheSame) {
  const std::vector<std::int32_t> tokens = {9, 9, 9, 9, 9, 9, 9, 9};
  const std::vector<Digest> all = BlockKeys(Seed(1), tokens, 2);
  EXPECT_EQ(std::set<Digest>(all.begin(), all.end()).size(), 4u);  // equal tokens, other positions
  const std::vector<Digest> half = BlockKeys(Seed(1), absl::MakeConstSpan(tokens).first(5), 2);
  ASSERT_EQ(half.size(), 2u);
  EXPECT_EQ(half[0], all[0]);
  EXPECT_EQ(half[1], all[1]);
  EXPECT_NE(BlockKeys(Seed(1), tokens, 4)[0], all[1]);
}

}  // namespace
}  // namespace scd
