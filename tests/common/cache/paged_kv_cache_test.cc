#include "common/cache/paged_kv_cache.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

class PagedKvCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<PagedKvCache> MakeCache(std::int64_t num_pages) {
    auto cache = PagedKvCache::Create(*backend_, layout_, num_pages);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }

  std::unique_ptr<Backend> backend_ = *CreateBackend({.device = "reference"});
  KvLayout layout_{.num_layers = 3, .num_kv_heads = 2, .head_dim = 4, .page_tokens = 8};
};

TEST_F(PagedKvCacheTest, AcquiresAllOrNothing) {
  const auto cache = MakeCache(5);
  const auto three = cache->Acquire(3);
  ASSERT_TRUE(three.ok());
  EXPECT_EQ(three->size(), 3u);
  EXPECT_EQ(cache->num_used_pages(), 3);

  const auto too_many = cache->Acquire(3);
  EXPECT_EQ(too_many.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_many.status().message()), HasSubstr("3 pages asked for, 2 of 5 free"));
  EXPECT_EQ(cache->num_used_pages(), 3);

  EXPECT_TRUE(cache->Acquire(2).ok());
  EXPECT_TRUE(cache->Acquire(0).ok());
  EXPECT_EQ(cache->num_used_pages(), 5);
  EXPECT_EQ(cache->Acquire(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PagedKvCacheTest, ReleasedPagesComeBackAndNoPageIsHandedOutTwice) {
  const auto cache = MakeCache(4);
  const auto first = *cache->Acquire(2);
  const auto second = *cache->Acquire(2);
  std::set<std::int32_t> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  EXPECT_EQ(all, (std::set<std::int32_t>{0, 1, 2, 3}));

  cache->Release(first);
  EXPECT_EQ(cache->num_used_pages(), 2);
  const auto third = *cache->Acquire(2);
  EXPECT_EQ(std::set<std::int32_t>(third.begin(), third.end()),
            std::set<std::int32_t>(first.begin(), first.end()));
}

TEST_F(PagedKvCacheTest, PagesForRoundsUp) {
  const auto cache = MakeCache(1);
  EXPECT_EQ(cache->PagesFor(1), 1);
  EXPECT_EQ(cache->PagesFor(8), 1);
  EXPECT_EQ(cache->PagesFor(9), 2);
  EXPECT_EQ(cache->PagesFor(std::numeric_limits<std::int64_t>::max()), (std::int64_t{1} << 60));
}

TEST_F(PagedKvCacheTest, LayersLieApartInOnePool) {
  const auto cache = MakeCache(2);
  const Shape shape{2, 2, 8, 4};
  const std::size_t bytes = static_cast<std::size_t>(shape.num_elements()) * sizeof(float);
  std::vector<const std::byte*> begins;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(cache->k_pages(layer).shape(), shape);
    EXPECT_EQ(cache->v_pages(layer).shape(), shape);
    begins.push_back(static_cast<const std::byte*>(cache->k_pages(layer).data()));
    begins.push_back(static_cast<const std::byte*>(cache->v_pages(layer).data()));
  }
  for (std::size_t i = 1; i < begins.size(); ++i)
    EXPECT_EQ(begins[i] - begins[i - 1], static_cast<std::ptrdiff_t>(bytes));
  EXPECT_EQ(cache->layout().page_bytes() * cache->num_pages(), static_cast<std::int64_t>(6 * bytes));
}

TEST_F(PagedKvCacheTest, RefusesImpossibleLayouts) {
  const auto code = [&](const KvLayout& layout, std::int64_t num_pages) {
    return PagedKvCache::Create(*backend_, layout, num_pages).status().code();
  };
  for (auto KvLayout::*field :
       {&KvLayout::num_layers, &KvLayout::num_kv_heads, &KvLayout::head_dim, &KvLayout::page_tokens}) {
    for (const std::int64_t bad :
         {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
      KvLayout layout = layout_;
      layout.*field = bad;
      EXPECT_EQ(code(layout, 1), absl::StatusCode::kInvalidArgument) << bad;
    }
  }
  KvLayout layout = layout_;
  layout.dtype = DType::kF16;
  EXPECT_EQ(code(layout, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(layout_, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(layout_, std::int64_t{1} << 40), absl::StatusCode::kInvalidArgument);
  layout = layout_;
  layout.num_layers = std::int64_t{1} << 40;
  EXPECT_EQ(code(layout, std::int64_t{1} << 30), absl::StatusCode::kResourceExhausted);
  const auto too_large = PagedKvCache::Create(*backend_, layout, std::int64_t{1} << 30);
  EXPECT_THAT(std::string(too_large.status().message()), ::testing::HasSubstr("kv_cache.memory_mib"));
}

TEST_F(PagedKvCacheTest, ManyThreadsNeverShareAPage) {
  const auto cache = MakeCache(16);
  std::vector<std::atomic<int>> owners(16);
  std::atomic<bool> shared{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto pages = cache->Acquire(1 + i % 6);
        if (!pages.ok()) continue;
        for (const std::int32_t page : *pages) {
          if (owners[static_cast<std::size_t>(page)].fetch_add(1) != 0) shared = true;
        }
        for (const std::int32_t page : *pages) owners[static_cast<std::size_t>(page)].fetch_sub(1);
        cache->Release(*pages);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(shared);
  EXPECT_EQ(cache->num_used_pages(), 0);
  EXPECT_TRUE(cache->Acquire(16).ok());
}

}  // namespace
}  // namespace scd
