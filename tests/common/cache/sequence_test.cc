#include "common/cache/sequence.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd {
namespace {

class SequenceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Sequence> MakeSequence(std::int64_t max_tokens) {
    auto sequence = Sequence::Create(*cache_, max_tokens);
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return *std::move(sequence);
  }

  std::unique_ptr<Backend> backend_ = *CreateBackend({.device = "reference"});
  std::unique_ptr<PagedKvCache> cache_ = *PagedKvCache::Create(
      *backend_, {.num_layers = 2, .num_kv_heads = 1, .head_dim = 4, .page_tokens = 8}, 10);
};

TEST_F(SequenceTest, HoldsItsPagesForItsLife) {
  auto sequence = MakeSequence(17);
  EXPECT_EQ(sequence->num_pages(), 3);
  EXPECT_EQ(sequence->max_tokens(), 17);
  EXPECT_EQ(cache_->num_used_pages(), 3);
  EXPECT_EQ(Sequence::Create(*cache_, 64).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_->num_used_pages(), 3);
  auto other = MakeSequence(56);
  EXPECT_EQ(cache_->num_used_pages(), 10);
  sequence.reset();
  EXPECT_EQ(cache_->num_used_pages(), 7);
  other.reset();
  EXPECT_EQ(cache_->num_used_pages(), 0);
  EXPECT_EQ(Sequence::Create(*cache_, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SequenceTest, SequencesSeeDifferentPagesOfTheirLayer) {
  const auto a = MakeSequence(16);
  const auto b = MakeSequence(16);
  std::vector<std::int32_t> pages;
  for (const auto* sequence : {a.get(), b.get()}) {
    const PagedKv kv = sequence->view(1);
    EXPECT_EQ(kv.k_pages.data(), cache_->k_pages(1).data());
    EXPECT_EQ(kv.v_pages.data(), cache_->v_pages(1).data());
    ASSERT_EQ(kv.block_table.shape(), Shape({2}));
    pages.insert(pages.end(), kv.block_table.as<std::int32_t>(), kv.block_table.as<std::int32_t>() + 2);
  }
  std::sort(pages.begin(), pages.end());
  EXPECT_EQ(std::adjacent_find(pages.begin(), pages.end()), pages.end());
}

TEST_F(SequenceTest, OnlyAWholePrefixIsValid) {
  const auto sequence = MakeSequence(40);
  EXPECT_EQ(sequence->valid_length(), 0);
  ASSERT_TRUE(sequence->MarkValid(10, 20).ok());
  EXPECT_EQ(sequence->valid_length(), 0);
  ASSERT_TRUE(sequence->MarkValid(0, 1).ok());
  EXPECT_EQ(sequence->valid_length(), 1);
  ASSERT_TRUE(sequence->MarkValid(1, 9).ok());
  EXPECT_EQ(sequence->valid_length(), 9);
  ASSERT_TRUE(sequence->MarkValid(30, 40).ok());
  ASSERT_TRUE(sequence->MarkValid(9, 10).ok());
  EXPECT_EQ(sequence->valid_length(), 20);
  ASSERT_TRUE(sequence->MarkValid(15, 32).ok());
  EXPECT_EQ(sequence->valid_length(), 40);
}

TEST_F(SequenceTest, RefusesRangesOutsideItself) {
  const auto sequence = MakeSequence(40);
  EXPECT_EQ(sequence->MarkValid(-1, 3).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(sequence->MarkValid(3, 2).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(sequence->MarkValid(0, 41).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(sequence->MarkValid(0, 0).ok());
  EXPECT_TRUE(sequence->MarkValid(40, 40).ok());
  EXPECT_EQ(sequence->valid_length(), 0);
}

TEST_F(SequenceTest, AnyOrderOfRangesGivesTheLengthOfTheCoveredPrefix) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto sequence = MakeSequence(40);
    std::vector<bool> covered(41, false);
    for (int i = 0; i < 12; ++i) {
      const auto begin = static_cast<std::int64_t>(random() % 40);
      const auto end = std::min<std::int64_t>(40, begin + static_cast<std::int64_t>(random() % 10));
      ASSERT_TRUE(sequence->MarkValid(begin, end).ok());
      std::fill(covered.begin() + begin, covered.begin() + end, true);
      const auto expected = std::find(covered.begin(), covered.end(), false) - covered.begin();
      ASSERT_EQ(sequence->valid_length(), expected)
          << "round " << round << ", after [" << begin << ", " << end << ")";
    }
  }
}

TEST_F(SequenceTest, WritersAndReadersMayBeDifferentThreads) {
  const auto sequence = MakeSequence(80);
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&sequence, t] {
      for (std::int64_t p = t; p < 80; p += 4) EXPECT_TRUE(sequence->MarkValid(p, p + 1).ok());
    });
  }
  std::int64_t seen = 0;
  while (seen < 80) {
    const std::int64_t now = sequence->valid_length();
    EXPECT_GE(now, seen);
    seen = now;
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(sequence->valid_length(), 80);
}

}  // namespace
}  // namespace scd
