// The vectorised code for every instruction set that this CPU has, not only the best of them.
#include <cmath>
#include <numeric>

#include "hwy/targets.h"
#include "tests/kernels/backend_rig.h"

namespace scd::testing {
namespace {

class InstructionSetTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void Compare(const char* what, const std::function<std::vector<float>(BackendRig&)>& op) {
    BackendRig tested({.device = "cpu", .num_threads = 1, .math = math_});
    BackendRig reference({.device = "reference", .math = math_});
    ExpectClose(op(tested), op(reference), 1e-5, what);
  }

  MathMode math_ = MathMode::kF32;
};

TEST_P(InstructionSetTest, IsTheOneInUse) {
  BackendRig rig({.device = "cpu"});
  EXPECT_NE(rig.backend().Describe().find(hwy::TargetName(GetParam())), std::string::npos)
      << rig.backend().Describe();
}

TEST_P(InstructionSetTest, Products) {
  for (const MathMode math : {MathMode::kF32, MathMode::kBF16}) {
    math_ = math;
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 16}) {
      Compare("MatMul", [&](BackendRig& rig) {
        const auto weight = rig.Pack({27, 93}, Random(27 * 93, 1), Random(27, 2));
        const RigTensor x = rig.Put({rows, 93}, Random(rows * 93, 3));
        const RigTensor out = rig.Make({rows, 27});
        ExpectOk(rig.backend().MatMul(rig.stream(), x.view, *weight, out.view, {}));
        return rig.Get(out);
      });
    }
  }
}

TEST_P(InstructionSetTest, Pointwise) {
  for (const std::int64_t dim : {5, 64, 93}) {
    Compare("RmsNorm", [&](BackendRig& rig) {
      const RigTensor x = rig.Put({3, dim}, Random(3 * dim, 1));
      const RigTensor weight = rig.Put({dim}, Random(dim, 2));
      ExpectOk(rig.backend().RmsNorm(rig.stream(), x.view, weight.view, 1e-5f, x.view));
      return rig.Get(x);
    });
    Compare("SwiGlu", [&](BackendRig& rig) {
      const RigTensor gate = rig.Put({3, dim}, Random(3 * dim, 1));
      const RigTensor up = rig.Put({3, dim}, Random(3 * dim, 2));
      ExpectOk(rig.backend().SwiGlu(rig.stream(), gate.view, up.view, up.view));
      return rig.Get(up);
    });
    Compare("Rope", [&](BackendRig& rig) {
      const RigTensor x = rig.Put({3, 1, 2 * dim}, Random(6 * dim, 1));
      const RigTensor cos = rig.Put({3, dim}, Random(3 * dim, 2));
      const RigTensor sin = rig.Put({3, dim}, Random(3 * dim, 3));
      const RigTensor positions = rig.PutIndices({2, 0, 1});
      ExpectOk(rig.backend().Rope(rig.stream(), x.view, positions.view, {cos.view, sin.view}));
      return rig.Get(x);
    });
    Compare("Copy", [&](BackendRig& rig) {
      const RigTensor src = rig.Put({3, dim}, Random(3 * dim, 1), 0, DType::kF16);
      const RigTensor dst = rig.Make({3, dim}, 0, DType::kBF16);
      ExpectOk(rig.backend().Copy(rig.stream(), dst.view, src.view));
      return rig.Get(dst);
    });
  }
}

TEST_P(InstructionSetTest, Attention) {
  for (const std::int64_t head_dim : {5, 64}) {
    for (const std::int64_t queries : {1, 2, 70, 150}) {
      Compare("Attention", [&](BackendRig& rig) {
        constexpr std::int64_t kBefore = 3;
        const std::int64_t pages = (kBefore + queries + 15) / 16;
        const Shape shape = {pages, 2, 16, head_dim};
        std::vector<std::int32_t> block_table(static_cast<std::size_t>(pages));
        std::iota(block_table.rbegin(), block_table.rend(), 0);
        const RigTensor k_pages = rig.Put(shape, Random(shape.num_elements(), 1));
        const RigTensor v_pages = rig.Put(shape, Random(shape.num_elements(), 2));
        const RigTensor table = rig.PutIndices(block_table);
        const RigTensor q = rig.Put({queries, 6, head_dim}, Random(queries * 6 * head_dim, 3));
        const RigTensor out = rig.Make({queries, 6, head_dim});
        ExpectOk(rig.backend().Attention(rig.stream(), q.view,
                                         {{0, queries, kBefore, {k_pages.view, v_pages.view, table.view}}},
                                         {.scale = 0.4f}, out.view));
        return rig.Get(out);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfThisCpu, InstructionSetTest,
                         ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

}  // namespace
}  // namespace scd::testing
