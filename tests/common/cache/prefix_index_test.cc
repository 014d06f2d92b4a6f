#include "common/cache/prefix_index.h"

#include "common/cache/block_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Keys of `count` blocks; chains with another salt part after `common` blocks.
std::vector<Digest> Chain(std::size_t count, std::size_t common, std::int32_t salt) {
  std::vector<std::int32_t> tokens(count, 1);
  for (std::size_t i = common; i < count; ++i) tokens[i] = salt;
  return BlockKeys(Digest(), tokens, 1);
}

class PrefixIndexTest : public ::testing::Test {
 protected:
  bool Insert(const std::vector<Digest>& chain, std::size_t block, std::int32_t page) {
    return index_.Insert(absl::MakeConstSpan(chain).first(block + 1), page);
  }
  void InsertUnheld(const std::vector<Digest>& chain, std::size_t begin, std::int32_t first_page) {
    for (std::size_t i = begin; i < chain.size(); ++i) {
      const auto page = static_cast<std::int32_t>(first_page + static_cast<std::int32_t>(i - begin));
      ASSERT_TRUE(Insert(chain, i, page));
      index_.MarkUnheld(page);
    }
  }

  PrefixIndex index_;
};

TEST_F(PrefixIndexTest, FindsTheLongestKnownBeginning) {
  const auto a = Chain(4, 0, 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Insert(a, static_cast<std::size_t>(i), 10 + i));
  EXPECT_THAT(index_.Find(a), ElementsAre(10, 11, 12));
  EXPECT_THAT(index_.Find(absl::MakeConstSpan(a).first(2)), ElementsAre(10, 11));
  EXPECT_THAT(index_.Find(Chain(4, 0, 3)), IsEmpty());
  EXPECT_THAT(index_.Find({}), IsEmpty());
  EXPECT_EQ(index_.CountKnown(a), 3);
  EXPECT_EQ(index_.CountKnown(absl::MakeConstSpan(a).first(2)), 2);
  EXPECT_EQ(index_.CountKnown(Chain(4, 0, 3)), 0);
  EXPECT_EQ(index_.CountKnown({}), 0);
  EXPECT_EQ(index_.size(), 3);
}

TEST_F(PrefixIndexTest, RefusesWhatIsKnownAndWhatCannotBeFound) {
  const auto a = Chain(3, 0, 2);
  EXPECT_FALSE(Insert(a, 1, 1));  // the block before is not known
  EXPECT_TRUE(Insert(a, 0, 0));
  EXPECT_FALSE(Insert(a, 0, 5));  // known
  EXPECT_FALSE(Insert(a, 1, 0));  // the page stands under another key
  EXPECT_TRUE(Insert(a, 1, 1));
  EXPECT_FALSE(index_.Contains(5));
  EXPECT_EQ(index_.size(), 2);
}

TEST_F(PrefixIndexTest, EndsOfChainsGoFirstLeastRecentlyUsedFirst) {
  const auto a = Chain(3, 1, 2);
  const auto b = Chain(3, 1, 3);
  InsertUnheld(a, 0, 0);  // pages 0 1 2
  InsertUnheld(b, 1, 3);  // pages 3 4, behind 0
  EXPECT_THAT(index_.Evict(), ElementsAre(2));
  index_.MarkHeld(1);  // a is used again
  index_.MarkUnheld(1);
  EXPECT_THAT(index_.Evict(), ElementsAre(4));
  EXPECT_THAT(index_.Evict(), ElementsAre(3));
  EXPECT_THAT(index_.Find(a), ElementsAre(0, 1));
  EXPECT_THAT(index_.Evict(), ElementsAre(1));
  EXPECT_THAT(index_.Evict(), ElementsAre(0));
  EXPECT_EQ(index_.size(), 0);
  EXPECT_EQ(index_.num_unheld(), 0);
}

TEST_F(PrefixIndexTest, HeldPagesStayUnlessTheyCanNoLongerBeFound) {
  const auto a = Chain(3, 0, 2);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Insert(a, static_cast<std::size_t>(i), i));
  index_.MarkUnheld(0);
  index_.MarkUnheld(1);
  // Only page 2 is held: pages 0 and 1 are no ends of chains, and yet nobody holds them.
  EXPECT_THAT(index_.Evict(), UnorderedElementsAre(0, 1));
  EXPECT_FALSE(index_.Contains(2));
  EXPECT_EQ(index_.size(), 0);
  EXPECT_TRUE(Insert(a, 0, 2));
}

}  // namespace
}  // namespace scd
