// Random use of the cache, step by step against what its contract says.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/cache/block_keys.h"
#include "common/cache/sequence.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 2;
constexpr std::int64_t kPages = 12;

// The number that stands for K of a position in a model that computes it from all tokens up to there.
float Truth(const std::vector<std::int32_t>& tokens, std::int64_t position) {
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i <= position; ++i) {
    state = state * 31 + static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(i)]) + 1;
  }
  return static_cast<float>(state % 1000003);
}

struct Running {
  std::vector<std::int32_t> tokens;
  std::vector<Digest> keys;
  std::unique_ptr<Sequence> sequence;
};

class CacheModelTest : public ::testing::TestWithParam<unsigned> {
 protected:
  int Random(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  float* At(const Sequence& sequence, std::int64_t position) {
    const PagedKv kv = sequence.view(0);
    const std::int32_t page = kv.block_table.as<std::int32_t>()[position / kPageTokens];
    return kv.k_pages.row<float>(page) + position % kPageTokens;
  }

  // Computes what is missing, as an engine would: only positions that are not valid are written.
  void Compute(Running& r, std::int64_t end) {
    for (std::int64_t p = r.sequence->valid_length(); p < end; ++p) {
      ASSERT_TRUE(cache_->IsPrivate(r.sequence->view(0).block_table.as<std::int32_t>()[p / kPageTokens]));
      *At(*r.sequence, p) = Truth(r.tokens, p);
      ASSERT_TRUE(r.sequence->MarkValid(p, p + 1).ok());
    }
  }

  void ExpectTrue(const Running& r) {
    if (r.sequence->swapped_out()) return;
    for (std::int64_t p = 0; p < r.sequence->valid_length(); ++p) {
      ASSERT_EQ(*At(*r.sequence, p), Truth(r.tokens, p)) << "position " << p;
    }
  }

  void Start() {
    Running r;
    const int length = 1 + Random(10);
    for (int i = 0; i < length; ++i) r.tokens.push_back(Random(10) < 8 ? 0 : Random(3));
    r.keys = BlockKeys(Digest(), r.tokens, kPageTokens);
    auto sequence = Sequence::Create(
        *cache_,
        {.max_tokens = length, .prefix = r.keys, .max_prefix_tokens = Random(2) ? length - 1 : length});
    if (!sequence.ok()) {
      ASSERT_EQ(sequence.status().code(), absl::StatusCode::kResourceExhausted);
      return;
    }
    r.sequence = *std::move(sequence);
    running_.push_back(std::move(r));
  }

  void Advance(Running& r) {
    if (r.sequence->swapped_out()) {
      const absl::Status status = r.sequence->SwapIn();
      ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
      return;
    }
    switch (Random(4)) {
      case 0:
        if (r.sequence->Reserve(static_cast<std::int64_t>(r.tokens.size()) + 1).ok())
          r.tokens.push_back(Random(3));
        break;
      case 1:
        Compute(r, r.sequence->valid_length() +
                       Random(static_cast<int>(r.sequence->max_tokens() - r.sequence->valid_length()) + 1));
        break;
      case 2:
        r.sequence->Publish(r.keys, r.sequence->valid_length());
        break;
      default:
        ASSERT_TRUE(r.sequence->SwapOut().ok());
    }
  }

  void ExpectCountsAgree() {
    std::set<std::int32_t> held;
    for (const Running& r : running_) {
      if (r.sequence->swapped_out()) continue;
      const ConstTensorView table = r.sequence->view(0).block_table;
      held.insert(table.as<std::int32_t>(), table.as<std::int32_t>() + table.dim(0));
    }
    const PagedKvCache::Stats stats = cache_->stats();
    ASSERT_EQ(stats.used_pages, static_cast<std::int64_t>(held.size()));
    ASSERT_EQ(cache_->num_available_pages(), kPages - stats.used_pages);
    ASSERT_LE(stats.indexed_pages, kPages);
  }

  std::mt19937 random_{GetParam()};
  std::unique_ptr<Backend> backend_ = *CreateBackend({.device = "reference"});
  std::unique_ptr<PagedKvCache> cache_ = *PagedKvCache::Create(
      *backend_, {.num_layers = 1, .num_kv_heads = 1, .head_dim = 1, .page_tokens = kPageTokens}, kPages);
  std::vector<Running> running_;
};

TEST_P(CacheModelTest, EverySequenceReadsItsOwnState) {
  for (int step = 0; step < 3000; ++step) {
    const int what = Random(10);
    if (running_.empty() || what < 2) {
      Start();
    } else if (what < 4) {
      running_.erase(running_.begin() + Random(static_cast<int>(running_.size())));
    } else {
      Advance(running_[static_cast<std::size_t>(Random(static_cast<int>(running_.size())))]);
    }
    for (const Running& r : running_) ExpectTrue(r);
    ExpectCountsAgree();
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
  EXPECT_GT(cache_->stats().known_blocks_used, 100);
  EXPECT_GT(cache_->stats().evicted_pages, 10);
  running_.clear();
  EXPECT_EQ(cache_->num_used_pages(), 0);
  EXPECT_TRUE(cache_->Acquire(kPages).ok());
  EXPECT_EQ(cache_->stats().indexed_pages, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheModelTest, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace scd
