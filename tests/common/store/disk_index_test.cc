#include "common/store/disk_index.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/store/block_samples.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using testing::Name;

const absl::Time kNow = absl::FromUnixSeconds(5000);

DiskIndex::Entry Entry(const std::string& name, absl::Time created = kNow, absl::Time used = kNow) {
  return {.key = Name(name), .bytes = 1000, .created = created, .used = used, .waiting = nullptr};
}

std::vector<Digest> Keys(const std::vector<DiskIndex::Entry>& entries) {
  std::vector<Digest> keys;
  for (const DiskIndex::Entry& entry : entries) keys.push_back(entry.key);
  return keys;
}

TEST(DiskIndexTest, CountsWhatFilesTakeOnTheDisk) {
  EXPECT_EQ(DiskIndex::OnDisk(1), 4096);
  EXPECT_EQ(DiskIndex::OnDisk(4096), 4096);
  EXPECT_EQ(DiskIndex::OnDisk(4097), 8192);
  DiskIndex index(10 * 4096);
  index.Add(Entry("a"), kNow);
  index.AddOlder(Entry("b"));
  EXPECT_EQ(index.size_bytes(), 2 * 4096);
  EXPECT_EQ(index.num_blocks(), 2);
  index.Erase(Name("a"));
  index.Erase(Name("a"));
  EXPECT_EQ(index.size_bytes(), 4096);
  EXPECT_EQ(index.Find(Name("a")), nullptr);
  EXPECT_NE(index.Find(Name("b")), nullptr);
}

TEST(DiskIndexTest, GivesUpWhatWasUsedLongestAgo) {
  DiskIndex index(4 * 4096);
  index.AddOlder(Entry("new", kNow, kNow - absl::Seconds(1)));
  index.AddOlder(Entry("old", kNow, kNow - absl::Seconds(2)));
  index.Add(Entry("a"), kNow);
  index.Add(Entry("b"), kNow);
  EXPECT_THAT(Keys(index.MakeRoom(1)), ElementsAre(Name("old")));
  EXPECT_THAT(index.MakeRoom(1), IsEmpty());
  index.MarkUsed({Name("new"), Name("not there"), Name("a")}, kNow);
  EXPECT_THAT(Keys(index.MakeRoom(3 * 4096)), ElementsAre(Name("b"), Name("a")));
}

TEST(DiskIndexTest, ExpiredOnesAreFoundByTheirCreation) {
  DiskIndex index(10 * 4096);
  index.Add(Entry("a", kNow - absl::Hours(1)), kNow);
  index.Add(Entry("b", kNow - absl::Hours(3)), kNow);
  index.Add(Entry("c", kNow), kNow);
  EXPECT_THAT(index.EraseCreatedBefore(absl::InfinitePast()), IsEmpty());
  EXPECT_THAT(Keys(index.EraseCreatedBefore(kNow - absl::Hours(2))), ElementsAre(Name("b")));
  EXPECT_EQ(index.num_blocks(), 2);
}

// Times on the disk follow the order of use, also where many uses share one reading of the clock, or it goes
// back.
TEST(DiskIndexTest, TimesOfUseAreStrictlyOrdered) {
  DiskIndex index(10 * 4096);
  index.AddOlder(Entry("x", kNow, kNow + absl::Hours(1)));
  EXPECT_THAT(index.TakeUsed(), IsEmpty());
  const std::vector<Digest> chain = {Name("a"), Name("b"), Name("c")};
  for (const char* name : {"a", "b", "c"}) index.Add(Entry(name), kNow);
  index.MarkUsed(chain, kNow);
  const auto used = index.TakeUsed();
  ASSERT_EQ(used.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(used[i].first, chain[i]);
    EXPECT_GT(used[i].second, kNow + absl::Hours(1));
    if (i > 0) {
      EXPECT_LT(used[i].second, used[i - 1].second);
    }
  }
  EXPECT_THAT(index.TakeUsed(), IsEmpty());
  index.MarkUsed({Name("b")}, kNow);
  ASSERT_EQ(index.TakeUsed().size(), 1u);
  // What waits for its file takes its time there with it.
  index.MarkUsed({Name("a")}, kNow);
  index.Find(Name("a"))->waiting = testing::FilledBlock(1);
  EXPECT_THAT(index.TakeUsed(), IsEmpty());
}

}  // namespace
}  // namespace scd
