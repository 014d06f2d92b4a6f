// What a sequence does with its pages beyond holding them: known beginnings, copies before writes, growth,
// and the way to host memory and back.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/cache/block_keys.h"
#include "common/cache/sequence.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 4;

class SequencePagesTest : public ::testing::TestWithParam<DType> {
 protected:
  SequencePagesTest() {
    cache_ = *PagedKvCache::Create(
        *backend_,
        {.num_layers = 2, .num_kv_heads = 2, .head_dim = 3, .page_tokens = kPageTokens, .dtype = GetParam()},
        8);
  }

  std::unique_ptr<Sequence> Make(std::int64_t max_tokens, const std::vector<Digest>& keys = {},
                                 std::int64_t max_prefix_tokens = 0) {
    auto sequence = Sequence::Create(
        *cache_, {.max_tokens = max_tokens, .prefix = keys, .max_prefix_tokens = max_prefix_tokens});
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return sequence.ok() ? *std::move(sequence) : nullptr;
  }

  static std::vector<Digest> Keys(std::int32_t num_tokens) {
    return BlockKeys(Digest(), std::vector<std::int32_t>(static_cast<std::size_t>(num_tokens), 7),
                     kPageTokens);
  }

  // All bytes of a sequence's pages, one after the other.
  std::string Bytes(const Sequence& sequence) const {
    std::string all;
    const auto page_bytes = static_cast<std::size_t>(cache_->layout().page_bytes());
    const ConstTensorView table = sequence.view(0).block_table;
    for (std::int64_t i = 0; i < table.dim(0); ++i) {
      std::string bytes(page_bytes, '\0');
      EXPECT_TRUE(cache_->memory()
                      .ReadPage(table.as<std::int32_t>()[i], reinterpret_cast<std::byte*>(bytes.data()))
                      .ok());
      all += bytes;
    }
    return all;
  }

  // Fills its pages with bytes of its own; every bit pattern of the dtype occurs sooner or later.
  void Fill(const Sequence& sequence, unsigned salt) {
    const auto page_bytes = static_cast<std::size_t>(cache_->layout().page_bytes());
    const ConstTensorView table = sequence.view(0).block_table;
    for (std::int64_t i = 0; i < table.dim(0); ++i) {
      std::string bytes(page_bytes, '\0');
      for (char& byte : bytes) byte = static_cast<char>(salt = salt * 1664525u + 1013904223u);
      EXPECT_TRUE(
          cache_->memory()
              .WritePage(table.as<std::int32_t>()[i], reinterpret_cast<const std::byte*>(bytes.data()))
              .ok());
    }
  }

  static std::vector<std::int32_t> Table(const Sequence& sequence) {
    const ConstTensorView table = sequence.view(0).block_table;
    return {table.as<std::int32_t>(), table.as<std::int32_t>() + table.dim(0)};
  }

  std::unique_ptr<Backend> backend_ = *CreateBackend({.device = "reference"});
  std::unique_ptr<PagedKvCache> cache_;
};

TEST_P(SequencePagesTest, ViewsHaveScalesWherePagesAreIntegers) {
  const auto sequence = Make(5);
  const PagedKv kv = sequence->view(1);
  EXPECT_EQ(kv.k_pages.dtype(), GetParam());
  if (GetParam() != DType::kI8) {
    EXPECT_TRUE(kv.k_scales.empty() && kv.v_scales.empty());
    return;
  }
  EXPECT_EQ(kv.k_scales.shape(), Shape({8, 2, kPageTokens}));
  EXPECT_EQ(kv.v_scales.shape(), Shape({8, 2, kPageTokens}));
  EXPECT_NE(kv.k_scales.data(), kv.v_scales.data());
  EXPECT_EQ(cache_->layout().page_bytes(), 2 * 2 * 2 * kPageTokens * (3 + 4));
}

TEST_P(SequencePagesTest, ASecondSequenceTakesOverWhatTheFirstPublished) {
  const auto keys = Keys(14);  // three whole blocks
  auto first = Make(14, keys, 14);
  EXPECT_EQ(first->valid_length(), 0);
  Fill(*first, 1);
  ASSERT_TRUE(first->MarkValid(0, 14).ok());
  EXPECT_EQ(first->Publish(keys, 11), 2);  // the third block is not whole yet
  EXPECT_EQ(first->Publish(keys, 14), 1);
  EXPECT_EQ(first->Publish(keys, 14), 0);

  const auto second = Make(14, keys, 13);
  EXPECT_EQ(second->valid_length(), 12);
  EXPECT_EQ(cache_->num_used_pages(), 5);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(Table(*second)[i], Table(*first)[i]);
  EXPECT_NE(Table(*second)[3], Table(*first)[3]);
  EXPECT_EQ(cache_->stats().known_blocks_used, 3);

  // It outlives the first, and the blocks outlive both.
  const std::string bytes =
      Bytes(*second).substr(0, 3 * static_cast<std::size_t>(cache_->layout().page_bytes()));
  first.reset();
  EXPECT_EQ(Bytes(*second).substr(0, bytes.size()), bytes);
  EXPECT_EQ(cache_->num_used_pages(), 4);
}

TEST_P(SequencePagesTest, APageThatIsWrittenAgainIsCopiedFirst) {
  const auto keys = Keys(8);
  const auto first = Make(8);
  Fill(*first, 2);
  ASSERT_TRUE(first->MarkValid(0, 8).ok());
  ASSERT_EQ(first->Publish(keys, 8), 2);
  const std::string before = Bytes(*first);

  const auto second = Make(10, keys, 7);  // position 7 is to be computed again
  EXPECT_EQ(second->valid_length(), 7);
  EXPECT_EQ(Table(*second)[0], Table(*first)[0]);
  EXPECT_NE(Table(*second)[1], Table(*first)[1]);
  EXPECT_EQ(Bytes(*second).substr(0, before.size()), before);
  Fill(*second, 3);  // writes the shared page too, which only a test may
  EXPECT_EQ(Bytes(*first).substr(before.size() / 2), before.substr(before.size() / 2));

  // Its own indexed page too.
  const auto table = Table(*first);
  ASSERT_TRUE(first->MakeWritable(4, 6).ok());
  EXPECT_EQ(Table(*first)[0], table[0]);
  EXPECT_NE(Table(*first)[1], table[1]);
  EXPECT_EQ(first->MakeWritable(4, 9).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(first->MakeWritable(-1, 2).code(), absl::StatusCode::kOutOfRange);
}

TEST_P(SequencePagesTest, KnownBlocksBehindTheLimitAreNotTaken) {
  const auto keys = Keys(16);
  const auto first = Make(16);
  ASSERT_TRUE(first->MarkValid(0, 16).ok());
  ASSERT_EQ(first->Publish(keys, 16), 4);
  const auto second = Make(16, keys, 8);
  EXPECT_EQ(second->valid_length(), 8);
  EXPECT_EQ(cache_->num_used_pages(), 6);
  const auto third = Make(4, keys, 100);  // no more than it has room for
  EXPECT_EQ(third->valid_length(), 4);
  EXPECT_EQ(cache_->num_used_pages(), 6);
}

TEST_P(SequencePagesTest, ACopyThatFindsNoPageLeavesNothingBehind) {
  const auto keys = Keys(8);
  auto first = Make(8);
  ASSERT_TRUE(first->MarkValid(0, 8).ok());
  ASSERT_EQ(first->Publish(keys, 8), 2);
  auto filler = Make(5 * kPageTokens);
  EXPECT_EQ(cache_->num_available_pages(), 1);
  const auto refused = Sequence::Create(*cache_, {.max_tokens = 12, .prefix = keys, .max_prefix_tokens = 7});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_->num_available_pages(), 1);
  filler.reset();
  EXPECT_NE(Make(12, keys, 7), nullptr);
}

TEST_P(SequencePagesTest, AKnownBlockThatCannotBeCopiedIsLeftOut) {
  const auto keys = Keys(32);  // all pages
  auto first = Make(32);
  ASSERT_TRUE(first->MarkValid(0, 32).ok());
  ASSERT_EQ(first->Publish(keys, 32), 8);
  first.reset();
  const auto second = Make(32, keys, 31);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->valid_length(), 28);
  EXPECT_EQ(cache_->num_used_pages(), 8);
}

TEST_P(SequencePagesTest, GrowsPageByPage) {
  const auto sequence = Make(3);
  const auto first = Table(*sequence);
  ASSERT_TRUE(sequence->Reserve(4).ok());
  EXPECT_EQ(sequence->num_pages(), 1);
  EXPECT_EQ(sequence->max_tokens(), 4);
  for (std::int64_t tokens = 5; tokens <= 32; ++tokens) {
    ASSERT_TRUE(sequence->Reserve(tokens).ok());
    EXPECT_EQ(sequence->num_pages(), (tokens + kPageTokens - 1) / kPageTokens);
    EXPECT_EQ(sequence->view(0).block_table.dim(0), sequence->num_pages());
  }
  EXPECT_EQ(Table(*sequence)[0], first[0]);
  EXPECT_EQ(sequence->Reserve(33).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(sequence->max_tokens(), 32);
  ASSERT_TRUE(sequence->Reserve(2).ok());  // never shrinks
  EXPECT_EQ(sequence->max_tokens(), 32);
  EXPECT_TRUE(sequence->MarkValid(0, 32).ok());
}

TEST_P(SequencePagesTest, ComesBackFromHostMemoryWithTheSameBytes) {
  const auto keys = Keys(8);
  const auto sequence = Make(30);
  Fill(*sequence, 4);
  ASSERT_TRUE(sequence->MarkValid(0, 18).ok());
  sequence->Publish(keys, 8);
  const std::string bytes = Bytes(*sequence);
  EXPECT_EQ(sequence->swap_bytes(), 5 * cache_->layout().page_bytes());
  EXPECT_EQ(sequence->SwapIn().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(sequence->SwapOut().ok());
  EXPECT_TRUE(sequence->swapped_out());
  EXPECT_EQ(sequence->SwapOut().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cache_->num_used_pages(), 0);

  auto other = Make(8 * kPageTokens);
  Fill(*other, 5);
  EXPECT_EQ(sequence->SwapIn().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(sequence->swapped_out());
  other.reset();
  ASSERT_TRUE(sequence->SwapIn().ok());
  EXPECT_FALSE(sequence->swapped_out());
  EXPECT_EQ(sequence->num_pages(), 8);
  EXPECT_EQ(sequence->valid_length(), 18);
  const auto in_use = static_cast<std::size_t>(5 * cache_->layout().page_bytes());
  EXPECT_EQ(Bytes(*sequence).substr(0, in_use), bytes.substr(0, in_use));
}

INSTANTIATE_TEST_SUITE_P(DTypes, SequencePagesTest, ::testing::Values(DType::kF32, DType::kBF16, DType::kI8),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace scd
