#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/kernels/parity.h"

namespace scd::testing {
namespace {

class AttentionParityTest : public ParityTest {};

struct SequenceShape {
  std::int64_t first_position;
  std::int64_t query_count;
};

struct Case {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t page_tokens;
  std::int64_t sliding_window;
  std::vector<SequenceShape> sequences;
};

std::string Describe(const Case& c) {
  std::string text = absl::StrCat("heads ", c.heads, "/", c.kv_heads, " head_dim ", c.head_dim, " page ",
                                  c.page_tokens, " window ", c.sliding_window, " sequences");
  for (const SequenceShape& s : c.sequences)
    absl::StrAppend(&text, " ", s.first_position, "+", s.query_count);
  return text;
}

// Writes every sequence's K and V through WriteKv into pages handed out in shuffled order, then attends; rows
// of q and out lie apart, with a row that belongs to no sequence between any two sequences.
std::vector<float> Attend(const Case& c, BackendRig& rig) {
  std::int64_t num_pages = 1;
  std::int64_t rows = 0;
  for (const SequenceShape& s : c.sequences) {
    num_pages += (s.first_position + s.query_count + c.page_tokens - 1) / c.page_tokens;
    rows += s.query_count + 1;
  }
  std::vector<std::int32_t> free_pages(static_cast<std::size_t>(num_pages));
  std::iota(free_pages.begin(), free_pages.end(), 0);
  std::shuffle(free_pages.begin(), free_pages.end(), std::mt19937(7));

  const Shape pages_shape = {num_pages, c.kv_heads, c.page_tokens, c.head_dim};
  // What was never written must not be read, not even to be multiplied by zero.
  const std::vector<float> nothing(static_cast<std::size_t>(pages_shape.num_elements()), NAN);
  const RigTensor k_pages = rig.Put(pages_shape, nothing);
  const RigTensor v_pages = rig.Put(pages_shape, nothing);
  const RigTensor q = rig.Put({rows, c.heads, c.head_dim}, RandomBf16(rows * c.heads * c.head_dim, 1), 5);
  const RigTensor out = rig.Put({rows, c.heads, c.head_dim},
                                std::vector<float>(static_cast<std::size_t>(rows * c.heads * c.head_dim)), 3);

  std::vector<RigTensor> owned;
  std::vector<AttentionSequence> sequences;
  std::int64_t row = 0;
  unsigned seed = 10;
  for (const SequenceShape& s : c.sequences) {
    const std::int64_t length = s.first_position + s.query_count;
    std::vector<std::int32_t> block_table;
    for (std::int64_t p = 0; p < length; p += c.page_tokens) {
      block_table.push_back(free_pages.back());
      free_pages.pop_back();
    }
    owned.push_back(rig.PutIndices(block_table));
    const PagedKv kv{k_pages.view, v_pages.view, owned.back().view};

    std::vector<std::int32_t> positions(static_cast<std::size_t>(length));
    std::iota(positions.begin(), positions.end(), 0);
    std::reverse(positions.begin(), positions.end());
    const Shape kv_shape = {length, c.kv_heads, c.head_dim};
    const RigTensor positions_tensor = rig.PutIndices(positions);
    const RigTensor k = rig.Put(kv_shape, RandomBf16(kv_shape.num_elements(), seed++), 2);
    const RigTensor v = rig.Put(kv_shape, RandomBf16(kv_shape.num_elements(), seed++), 4);
    if (sequences.size() % 2 == 0) {
      ExpectOk(rig.backend().WriteKv(rig.stream(), k.view, v.view, positions_tensor.view, kv));
    } else {  // each alone leaves the other as it is
      ExpectOk(rig.backend().WriteKv(rig.stream(), {}, v.view, positions_tensor.view, kv));
      ExpectOk(rig.backend().WriteKv(rig.stream(), k.view, {}, positions_tensor.view, kv));
    }
    sequences.push_back({row, s.query_count, s.first_position, kv});
    row += s.query_count + 1;
    ExpectOk(rig.backend().Synchronize(rig.stream()));
  }
  const AttentionOptions options{.scale = 1.7f / std::sqrt(static_cast<float>(c.head_dim)),
                                 .sliding_window = c.sliding_window};
  ExpectOk(rig.backend().Attention(rig.stream(), q.view, sequences, options, out.view));
  return rig.Get(out);
}

TEST_P(AttentionParityTest, DecodeAndPrefillOverShuffledPages) {
  for (const std::int64_t head_dim : {1, 5, 16, 64, 80}) {
    for (const std::int64_t page_tokens : {1, 5, 16, 64}) {
      for (const auto& [heads, kv_heads] :
           {std::pair{1, 1}, std::pair{4, 4}, std::pair{9, 3}, std::pair{10, 1}}) {
        const Case c{heads,       kv_heads, head_dim,
                     page_tokens, 0,        {{0, 1}, {70, 1}, {0, 67}, {33, 3}, {63, 2}, {64, 17}}};
        Compare(Describe(c), GetParam().attention_tolerance, [&](BackendRig& rig) { return Attend(c, rig); });
      }
    }
  }
}

TEST_P(AttentionParityTest, SlidingWindow) {
  for (const std::int64_t window : {1, 2, 7, 64, 65, 100, 1000}) {
    for (const std::int64_t page_tokens : {5, 16}) {
      const Case c{6, 2, 24, page_tokens, window, {{0, 90}, {130, 1}, {63, 70}, {200, 3}}};
      Compare(Describe(c), GetParam().attention_tolerance, [&](BackendRig& rig) { return Attend(c, rig); });
    }
  }
}

TEST_P(AttentionParityTest, LongDecodeAndLongPrefill) {
  const Case c{9, 3, 64, 32, 0, {{1500, 1}, {0, 150}, {700, 20}}};
  Compare(Describe(c), GetParam().attention_tolerance, [&](BackendRig& rig) { return Attend(c, rig); });
}

TEST_P(AttentionParityTest, PrefillOfWideHeads) {
  for (const std::int64_t head_dim : {72, 128, 130, 200, 256}) {
    for (const std::int64_t window : {0, 40}) {
      const Case c{4, 2, head_dim, 16, window, {{0, 70}, {55, 9}, {31, 33}}};
      Compare(Describe(c), GetParam().attention_tolerance, [&](BackendRig& rig) { return Attend(c, rig); });
    }
  }
}

TEST_P(AttentionParityTest, PagesBeforeTheWindowMayBeGone) {
  // A cache that frees what the window has passed leaves anything in those entries of the block table.
  const std::vector<float> pages = RandomBf16(2 * 1 * 4 * 8, 1);
  Compare("freed pages", GetParam().attention_tolerance, [&](BackendRig& rig) {
    const RigTensor k_pages = rig.Put({2, 1, 4, 8}, pages);
    const RigTensor v_pages = rig.Put({2, 1, 4, 8}, pages);
    const RigTensor block_table = rig.PutIndices({-1, 77, 1, 0});
    const RigTensor q = rig.Put({2, 1, 8}, RandomBf16(16, 2));
    const RigTensor out = rig.Make({2, 1, 8});
    const AttentionSequence sequence{0, 2, 12, {k_pages.view, v_pages.view, block_table.view}};
    ExpectOk(rig.backend().Attention(rig.stream(), q.view, {sequence}, {.scale = 1.0f, .sliding_window = 5},
                                     out.view));
    return rig.Get(out);
  });
}

TEST_P(AttentionParityTest, LargeScoresDoNotOverflow) {
  Compare("scores of about 1e5", GetParam().attention_tolerance, [&](BackendRig& rig) {
    std::vector<float> k = RandomBf16(40 * 8, 1);
    for (float& value : k) value *= 32768.0f;
    const RigTensor k_pages = rig.Make({3, 1, 16, 8});
    const RigTensor v_pages = rig.Make({3, 1, 16, 8});
    const RigTensor block_table = rig.PutIndices({2, 0, 1});
    const PagedKv kv{k_pages.view, v_pages.view, block_table.view};
    std::vector<std::int32_t> positions(40);
    std::iota(positions.begin(), positions.end(), 0);
    const RigTensor k_tensor = rig.Put({40, 1, 8}, k);
    const RigTensor v_tensor = rig.Put({40, 1, 8}, RandomBf16(40 * 8, 2));
    const RigTensor positions_tensor = rig.PutIndices(positions);
    ExpectOk(rig.backend().WriteKv(rig.stream(), k_tensor.view, v_tensor.view, positions_tensor.view, kv));
    const RigTensor q = rig.Put({40, 2, 8}, RandomBf16(40 * 2 * 8, 3));
    const RigTensor out = rig.Make({40, 2, 8});
    ExpectOk(rig.backend().Attention(rig.stream(), q.view, {{0, 40, 0, kv}}, {.scale = 1.0f}, out.view));
    return rig.Get(out);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
