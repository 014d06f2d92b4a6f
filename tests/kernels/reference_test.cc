// The reference backend against values computed from the definitions outside of it, and everything it is
// trusted for.
#include <cmath>
#include <cstring>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/backend_rig.h"
#include "tests/kernels/expected_values.h"

namespace scd::testing {
namespace {

// The formula of make_expected_values.py.
std::vector<float> Pattern(std::int64_t count, std::int64_t seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * 37 + seed * 11) % 23 - 11) / 8.0f);
  }
  return values;
}

void ExpectValues(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << "element " << i;
  }
}

class ReferenceTest : public ::testing::Test {
 protected:
  BackendRig rig_{{.device = "reference"}};
};

TEST_F(ReferenceTest, MatMul) {
  const auto weight = rig_.Pack({4, 5}, Pattern(4 * 5, 2), Pattern(4, 3));
  const RigTensor x = rig_.Put({3, 5}, Pattern(3 * 5, 1));
  const RigTensor out = rig_.Make({3, 4});
  ExpectOk(rig_.backend().MatMul(rig_.stream(), x.view, *weight, out.view, {}));
  ExpectValues(rig_.Get(out), expected::kMatMul);
}

TEST_F(ReferenceTest, MatMulAccumulatesOntoTheOldValues) {
  const auto weight = rig_.Pack({4, 5}, Pattern(4 * 5, 2), Pattern(4, 3));
  const RigTensor x = rig_.Put({3, 5}, Pattern(3 * 5, 1));
  const RigTensor out = rig_.Put({3, 4}, std::vector<float>(12, 100.0f));
  ExpectOk(rig_.backend().MatMul(rig_.stream(), x.view, *weight, out.view, {.accumulate = true}));
  std::vector<double> expected = expected::kMatMul;
  for (double& value : expected) value += 100.0;
  ExpectValues(rig_.Get(out), expected);
}

TEST_F(ReferenceTest, Bf16ModeRoundsBothOperands) {
  BackendRig rig({.device = "reference", .math = MathMode::kBF16});
  // 1 + 2^-9 rounds to 1 and 3 + 2^-7 (a tie) to 3.
  const auto weight = rig.Pack({1, 1}, {1.001953125f}, {});
  const RigTensor x = rig.Put({1, 1}, {3.0078125f});
  const RigTensor out = rig.Make({1, 1});
  ExpectOk(rig.backend().MatMul(rig.stream(), x.view, *weight, out.view, {}));
  EXPECT_EQ(rig.Get(out), std::vector<float>{3.0f});
}

TEST_F(ReferenceTest, Gemm) {
  const RigTensor a = rig_.Put({4, 3}, Pattern(4 * 3, 4));
  const RigTensor b = rig_.Put({4, 2}, Pattern(4 * 2, 5));
  const RigTensor c = rig_.Put({3, 2}, Pattern(3 * 2, 6));
  ExpectOk(rig_.backend().Gemm(rig_.stream(), a.view, b.view, c.view,
                               {.transpose_a = true, .alpha = 0.5f, .beta = -2.0f}));
  ExpectValues(rig_.Get(c), expected::kGemm);
}

TEST_F(ReferenceTest, RmsNorm) {
  const RigTensor x = rig_.Put({2, 6}, Pattern(2 * 6, 7));
  const RigTensor weight = rig_.Put({6}, Pattern(6, 8));
  const RigTensor out = rig_.Make({2, 6});
  ExpectOk(rig_.backend().RmsNorm(rig_.stream(), x.view, weight.view, 1e-5f, out.view));
  ExpectValues(rig_.Get(out), expected::kRmsNorm);
}

TEST_F(ReferenceTest, Rope) {
  const RigTensor x = rig_.Put({2, 2, 6}, Pattern(2 * 2 * 6, 9));
  const RigTensor positions = rig_.PutIndices({3, 1});
  const RigTensor cos = rig_.Put({4, 3}, {expected::kRopeCos.begin(), expected::kRopeCos.end()});
  const RigTensor sin = rig_.Put({4, 3}, {expected::kRopeSin.begin(), expected::kRopeSin.end()});
  ExpectOk(rig_.backend().Rope(rig_.stream(), x.view, positions.view, {cos.view, sin.view}));
  ExpectValues(rig_.Get(x), expected::kRope);
}

TEST_F(ReferenceTest, Silu) {
  const RigTensor x = rig_.Put({2, 5}, Pattern(2 * 5, 10));
  ExpectOk(rig_.backend().Silu(rig_.stream(), x.view));
  ExpectValues(rig_.Get(x), expected::kSilu);
}

TEST_F(ReferenceTest, SwiGlu) {
  const RigTensor gate = rig_.Put({2, 5}, Pattern(2 * 5, 10));
  const RigTensor up = rig_.Put({2, 5}, Pattern(2 * 5, 11));
  const RigTensor out = rig_.Make({2, 5});
  ExpectOk(rig_.backend().SwiGlu(rig_.stream(), gate.view, up.view, out.view));
  ExpectValues(rig_.Get(out), expected::kSwiGlu);
}

TEST_F(ReferenceTest, EmbedPicksRows) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const RigTensor table = rig_.Put({3, 2}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.5f}, 0, dtype);
    const RigTensor ids = rig_.PutIndices({2, 0, 2});
    const RigTensor out = rig_.Make({3, 2});
    ExpectOk(rig_.backend().Embed(rig_.stream(), table.view, ids.view, out.view));
    EXPECT_EQ(rig_.Get(out), (std::vector<float>{5.0f, 6.5f, 1.0f, 2.0f, 5.0f, 6.5f}));
  }
}

TEST_F(ReferenceTest, WriteKvPutsVectorsWhereTheBlockTableSays) {
  // Three pages of [1 head, 2 slots, 2 elements]; position 0 in page 2, positions 2 and 3 in page 0.
  const RigTensor k_pages = rig_.Put({3, 1, 2, 2}, std::vector<float>(12, 0.0f));
  const RigTensor v_pages = rig_.Put({3, 1, 2, 2}, std::vector<float>(12, 0.0f));
  const RigTensor block_table = rig_.PutIndices({2, 0});
  const RigTensor positions = rig_.PutIndices({3, 0});
  const RigTensor k = rig_.Put({2, 1, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  const RigTensor v = rig_.Put({2, 1, 2}, {5.0f, 6.0f, 7.0f, 8.0f});
  ExpectOk(rig_.backend().WriteKv(rig_.stream(), k.view, v.view, positions.view,
                                  {k_pages.view, v_pages.view, block_table.view}));
  EXPECT_EQ(rig_.Get(k_pages), (std::vector<float>{0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(rig_.Get(v_pages), (std::vector<float>{0, 0, 5, 6, 0, 0, 0, 0, 7, 8, 0, 0}));
}

TEST_F(ReferenceTest, Attention) {
  const RigTensor k_pages = rig_.Make({4, 2, 2, 4});
  const RigTensor v_pages = rig_.Make({4, 2, 2, 4});
  const RigTensor block_table = rig_.PutIndices({3, 0, 2});
  const PagedKv kv{k_pages.view, v_pages.view, block_table.view};
  const RigTensor positions = rig_.PutIndices({0, 1, 2, 3, 4});
  const RigTensor k = rig_.Put({5, 2, 4}, Pattern(5 * 2 * 4, 13));
  const RigTensor v = rig_.Put({5, 2, 4}, Pattern(5 * 2 * 4, 14));
  ExpectOk(rig_.backend().WriteKv(rig_.stream(), k.view, v.view, positions.view, kv));
  const RigTensor q = rig_.Put({3, 4, 4}, Pattern(3 * 4 * 4, 12));
  const RigTensor out = rig_.Make({3, 4, 4});
  const AttentionSequence sequence{0, 3, 2, kv};
  ExpectOk(rig_.backend().Attention(rig_.stream(), q.view, {sequence}, {.scale = 0.5f}, out.view));
  ExpectValues(rig_.Get(out), expected::kAttention);
  ExpectOk(rig_.backend().Attention(rig_.stream(), q.view, {sequence}, {.scale = 0.5f, .sliding_window = 2},
                                    out.view));
  ExpectValues(rig_.Get(out), expected::kAttentionWindow2);
}

TEST_F(ReferenceTest, CopyKeepsOtherTypesAsTheyAre) {
  const std::vector<std::int32_t> values = {-1, 2, 1 << 30, -(1 << 30)};
  std::vector<std::int32_t> copy(4);
  ExpectOk(rig_.backend().Copy(rig_.stream(), TensorView(copy.data(), DType::kI32, {2, 2}),
                               ConstTensorView(values.data(), DType::kI32, {2, 2})));
  EXPECT_EQ(copy, values);
}

}  // namespace
}  // namespace scd::testing
