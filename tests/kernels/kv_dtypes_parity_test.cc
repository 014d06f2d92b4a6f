// Pages of every dtype: what WriteKv keeps of a number, and attention over it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/kernels/kv_parity.h"

namespace scd::testing {
namespace {

class KvDTypesParityTest : public ParityTest {};

// Writes positions [0, tokens), last first, from rows that lie apart.
void Fill(BackendRig& rig, const RigPages& pages, std::int64_t tokens, unsigned seed) {
  const Shape shape = {tokens, pages.k.view.dim(1), pages.k.view.dim(3)};
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.rbegin(), positions.rend(), 0);
  const RigTensor at = rig.PutIndices(positions);
  const RigTensor k = rig.Put(shape, RandomBf16(shape.num_elements(), seed), 2);
  const RigTensor v = rig.Put(shape, RandomBf16(shape.num_elements(), seed + 1), 4);
  ExpectOk(rig.backend().WriteKv(rig.stream(), k.view, {}, at.view, pages.kv));
  ExpectOk(rig.backend().WriteKv(rig.stream(), {}, v.view, at.view, pages.kv));
  ExpectOk(rig.backend().Synchronize(rig.stream()));
}

struct Rows {
  std::int64_t first_position;
  std::int64_t count;
};

// One sequence, its last rows.
std::vector<float> Attend(BackendRig& rig, DType dtype, const Rows& rows, std::int64_t heads,
                          std::int64_t kv_heads, std::int64_t head_dim, std::int64_t window) {
  const std::int64_t tokens = rows.first_position + rows.count;
  const RigPages pages = MakePages(rig, dtype, tokens, kv_heads, 13, head_dim);
  Fill(rig, pages, tokens, 3);
  const Shape shape = {rows.count, heads, head_dim};
  const RigTensor q = rig.Put(shape, RandomBf16(shape.num_elements(), 1), 5);
  const RigTensor out = rig.Make(shape, 3);
  ExpectOk(rig.backend().Attention(
      rig.stream(), q.view, {{0, rows.count, rows.first_position, pages.kv}},
      {.scale = 1.3f / std::sqrt(static_cast<float>(head_dim)), .sliding_window = window}, out.view));
  return rig.Get(out);
}

TEST_P(KvDTypesParityTest, Attention) {
  for (const DType dtype : kPageDTypes) {
    for (const Rows& rows : {Rows{0, 1}, {600, 2}, {0, 3}, {511, 3}, {90, 40}, {0, 150}}) {
      for (const std::int64_t head_dim : {20, 64}) {
        for (const std::int64_t window : {0, 5, 130}) {
          Compare(absl::StrCat(std::string(DTypeName(dtype)), " rows ", rows.first_position, "+", rows.count,
                               " head_dim ", head_dim, " window ", window),
                  GetParam().attention_tolerance,
                  [&](BackendRig& rig) { return Attend(rig, dtype, rows, 6, 2, head_dim, window); });
        }
      }
    }
  }
}

TEST_P(KvDTypesParityTest, GroupsOfEverySize) {
  for (const DType dtype : kPageDTypes) {
    for (const std::int64_t group : {1, 2, 3, 4, 5, 7, 8, 9, 17}) {
      Compare(absl::StrCat(std::string(DTypeName(dtype)), " group ", group), GetParam().attention_tolerance,
              [&](BackendRig& rig) {
                return Attend(rig, dtype, {530, 1}, 2 * group, 2, 32, 0);
              });
    }
  }
}

TEST_P(KvDTypesParityTest, EqualWeightsGiveTheMeanOfWhatIsSeen) {
  // Queries of zeros: whatever weights are rounded to, these are exact, so that a position too many or too
  // few shows. Sums on tensor cores keep fewer bits than f32.
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Rows& rows : {Rows{0, 130}, {70, 40}, {33, 5}, {200, 3}}) {
      for (const std::int64_t window : {0, 1, 31, 50}) {
        const std::int64_t tokens = rows.first_position + rows.count;
        const RigPages pages = MakePages(tested_, dtype, tokens, 2, 13, 24);
        Fill(tested_, pages, tokens, 3);
        const Shape shape = {rows.count, 6, 24};
        const RigTensor q =
            tested_.Put(shape, std::vector<float>(static_cast<std::size_t>(shape.num_elements()), 0.0f));
        const RigTensor out = tested_.Make(shape);
        ExpectOk(tested_.backend().Attention(tested_.stream(), q.view,
                                             {{0, rows.count, rows.first_position, pages.kv}},
                                             {.scale = 1.0f, .sliding_window = window}, out.view));
        const std::vector<float> values = RandomBf16(tokens * 2 * 24, 4);
        std::vector<float> means;
        for (std::int64_t i = 0; i < rows.count; ++i) {
          const std::int64_t last = rows.first_position + i;
          const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, last - window + 1);
          for (std::int64_t head = 0; head < 6; ++head) {
            for (std::int64_t d = 0; d < 24; ++d) {
              double sum = 0.0;
              // Fill writes row r at position tokens - 1 - r.
              for (std::int64_t p = first; p <= last; ++p)
                sum += values[static_cast<std::size_t>(((tokens - 1 - p) * 2 + head / 3) * 24 + d)];
              means.push_back(static_cast<float>(sum / static_cast<double>(last - first + 1)));
            }
          }
        }
        ExpectClose(tested_.Get(out), means, 1e-4,
                    absl::StrCat("rows ", rows.first_position, "+", rows.count, " window ", window));
      }
    }
  }
}

TEST_P(KvDTypesParityTest, PrefillOfASequenceDoesNotDependOnTheOthers) {
  constexpr std::int64_t kTokens = 150;
  for (const DType dtype : kPageDTypes) {
    const RigPages pages = MakePages(tested_, dtype, kTokens, 2, 16, 64);
    Fill(tested_, pages, kTokens, 3);
    const RigTensor q = tested_.Put({150, 6, 64}, Random(150 * 6 * 64, 1));
    const RigTensor alone = tested_.Put({150, 6, 64}, std::vector<float>(150 * 6 * 64));
    const RigTensor together = tested_.Put({150, 6, 64}, std::vector<float>(150 * 6 * 64));
    const std::vector<AttentionSequence> sequences = {
        {0, 40, 60, pages.kv}, {40, 1, 149, pages.kv}, {41, 100, 17, pages.kv}, {141, 9, 141, pages.kv}};
    for (const AttentionSequence& s : sequences) {
      ExpectOk(tested_.backend().Attention(tested_.stream(), q.view, {s}, {.scale = 0.1f}, alone.view));
    }
    ExpectOk(
        tested_.backend().Attention(tested_.stream(), q.view, sequences, {.scale = 0.1f}, together.view));
    EXPECT_EQ(tested_.Get(alone), tested_.Get(together));
  }
}

TEST_P(KvDTypesParityTest, RoundedPagesAreCloseToF32) {
  const auto attend = [this](DType dtype) { return Attend(tested_, dtype, {400, 3}, 6, 2, 64, 0); };
  const std::vector<float> exact = attend(DType::kF32);
  ExpectClose(attend(DType::kBF16), exact, 1e-2, "bf16");
  ExpectClose(attend(DType::kI8), exact, 2e-2, "i8");
}

TEST_P(KvDTypesParityTest, IntegersAreWithinHalfAStep) {
  constexpr std::int64_t kTokens = 9;
  for (const std::int64_t head_dim : {1, 5, 64, 67}) {
    const RigPages pages = MakePages(tested_, DType::kI8, kTokens, 2, 4, head_dim);
    std::vector<float> numbers = Random(kTokens * 2 * head_dim, 5);
    std::fill_n(numbers.begin(), head_dim, 0.0f);  // the first vector
    const RigTensor k = tested_.Put({kTokens, 2, head_dim}, numbers);
    std::vector<std::int32_t> positions(kTokens);
    std::iota(positions.begin(), positions.end(), 0);
    const RigTensor at = tested_.PutIndices(positions);
    ExpectOk(tested_.backend().WriteKv(tested_.stream(), k.view, {}, at.view, pages.kv));
    const std::vector<float> scales = tested_.Get(pages.k_scales);
    std::vector<std::int8_t> bytes(static_cast<std::size_t>(pages.k.view.num_elements()));
    ExpectOk(tested_.backend().Copy(
        tested_.stream(), TensorView(bytes.data(), DType::kI8, pages.k.view.shape()), pages.k.view));
    ExpectOk(tested_.backend().Synchronize(tested_.stream()));
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages.table.view.dim(0)));
    ExpectOk(tested_.backend().Copy(
        tested_.stream(), TensorView(table.data(), DType::kI32, pages.table.view.shape()), pages.table.view));
    ExpectOk(tested_.backend().Synchronize(tested_.stream()));
    for (std::int64_t p = 0; p < kTokens; ++p) {
      for (std::int64_t h = 0; h < 2; ++h) {
        const auto first = numbers.begin() + (p * 2 + h) * head_dim;
        float largest = 0.0f;
        for (auto x = first; x < first + head_dim; ++x) largest = std::max(largest, std::abs(*x));
        const std::int64_t vector = (table[static_cast<std::size_t>(p / 4)] * 2 + h) * 4 + p % 4;
        const float scale = scales[static_cast<std::size_t>(vector)];
        EXPECT_FLOAT_EQ(scale, largest / 127.0f);
        for (std::int64_t i = 0; i < head_dim; ++i) {
          const float kept = scale * bytes[static_cast<std::size_t>(vector * head_dim + i)];
          EXPECT_NEAR(kept, first[i], 0.5001f * scale)
              << "position " << p << " head " << h << " number " << i;
        }
      }
    }
  }
}

TEST_P(KvDTypesParityTest, AttentionOfASequenceDoesNotDependOnTheOthers) {
  constexpr std::int64_t kLong = 700;
  const RigPages pages = MakePages(tested_, DType::kF32, kLong, 3, 16, 64);
  Fill(tested_, pages, kLong, 3);
  const RigTensor q = tested_.Put({4, 9, 64}, Random(4 * 9 * 64, 1));
  const RigTensor alone = tested_.Make({4, 9, 64});
  const RigTensor together = tested_.Make({4, 9, 64});
  std::vector<AttentionSequence> sequences;
  for (std::int64_t i = 0; i < 4; ++i) sequences.push_back({i, 1, kLong - 1 - 150 * i, pages.kv});
  for (const AttentionSequence& s : sequences) {
    ExpectOk(tested_.backend().Attention(tested_.stream(), q.view, {s}, {.scale = 0.1f}, alone.view));
  }
  ExpectOk(tested_.backend().Attention(tested_.stream(), q.view, sequences, {.scale = 0.1f}, together.view));
  EXPECT_EQ(tested_.Get(alone), tested_.Get(together));
}

INSTANTIATE_TEST_SUITE_P(Backends, KvDTypesParityTest, ::testing::ValuesIn(ParityBackends()), ParityName);

}  // namespace
}  // namespace scd::testing
