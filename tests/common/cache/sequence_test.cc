#include "common/cache/sequence.h"

#include <algorithm>
#include <atomic>
#include <memory>
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

TEST_F(SequenceTest, CallsBackOnceTheLengthIsReached) {
  const auto sequence = MakeSequence(40);
  std::vector<int> calls;
  sequence->WhenValid(0, [&] { calls.push_back(0); });
  EXPECT_EQ(calls, (std::vector<int>{0}));
  sequence->WhenValid(20, [&] { calls.push_back(20); });
  sequence->WhenValid(10, [&] { calls.push_back(10); });
  sequence->WhenValid(20, [&] { calls.push_back(21); });
  sequence->WhenValid(21, [&] { calls.push_back(22); });
  ASSERT_TRUE(sequence->MarkValid(5, 20).ok());
  ASSERT_TRUE(sequence->MarkValid(0, 4).ok());
  EXPECT_EQ(calls, (std::vector<int>{0}));
  ASSERT_TRUE(sequence->MarkValid(4, 5).ok());
  EXPECT_EQ(calls, (std::vector<int>{0, 10, 20, 21}));
  ASSERT_TRUE(sequence->MarkValid(0, 20).ok());
  EXPECT_EQ(calls.size(), 4u);
  sequence->WhenValid(20, [&] { calls.push_back(23); });
  EXPECT_EQ(calls.back(), 23);
}

TEST_F(SequenceTest, CallbacksThatAreNotDueDieWithTheSequence) {
  auto sequence = MakeSequence(40);
  const auto held = std::make_shared<int>(0);
  sequence->WhenValid(40, [held] { ++*held; });
  sequence->WhenValid(41, [held] { ++*held; });
  ASSERT_TRUE(sequence->MarkValid(0, 39).ok());
  EXPECT_EQ(held.use_count(), 3);
  ASSERT_TRUE(sequence->MarkValid(39, 40).ok());
  EXPECT_EQ(*held, 1);
  EXPECT_EQ(held.use_count(), 2);  // what ran is not kept
  sequence.reset();
  EXPECT_EQ(*held, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(SequenceTest, ACallbackMayUseAndEndItsSequence) {
  auto sequence = MakeSequence(40);
  std::vector<std::int64_t> lengths;
  sequence->WhenValid(10, [&] {
    lengths.push_back(sequence->valid_length());
    sequence->WhenValid(20, [&] {
      lengths.push_back(sequence->valid_length());
      sequence.reset();
    });
    EXPECT_TRUE(sequence->MarkValid(10, 20).ok());
  });
  ASSERT_TRUE(sequence->MarkValid(0, 10).ok());
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(sequence, nullptr);
  EXPECT_EQ(cache_->num_used_pages(), 0);
}

TEST_F(SequenceTest, EveryCallbackRunsOnceWhateverTheThreads) {
  for (int round = 0; round < 50; ++round) {
    const auto sequence = MakeSequence(40);
    std::vector<std::atomic<int>> calls(41);
    std::atomic<int> too_early = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&sequence, t] {
        for (std::int64_t p = t; p < 40; p += 3) EXPECT_TRUE(sequence->MarkValid(p, p + 1).ok());
      });
    }
    threads.emplace_back([&] {
      for (std::int64_t length = 40; length >= 0; --length) {
        sequence->WhenValid(length, [&, length] {
          ++calls[static_cast<std::size_t>(length)];
          if (sequence->valid_length() < length) ++too_early;
        });
      }
    });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t length = 0; length <= 40; ++length) ASSERT_EQ(calls[length], 1) << length;
    ASSERT_EQ(too_early, 0);
  }
}

TEST_F(SequenceTest, TheMarkingThreadRunsTheCallback) {
  const auto sequence = MakeSequence(8);
  std::thread::id ran_on;
  sequence->WhenValid(8, [&] { ran_on = std::this_thread::get_id(); });
  std::thread marker([&] { EXPECT_TRUE(sequence->MarkValid(0, 8).ok()); });
  const std::thread::id marking = marker.get_id();
  marker.join();
  EXPECT_EQ(ran_on, marking);
}

}  // namespace
}  // namespace scd
