// Kernels without races give the same bits in whatever order their threads and blocks run.
#include <numeric>

#include "tests/kernels/backend_rig.h"
#include "tests/kernels/cuda_options.h"
#include "tests/kernels/kv_parity.h"

namespace scd::testing {
namespace {

constexpr std::int64_t kTokens = 300;
constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kHeadDim = 40;
constexpr std::int64_t kHidden = 600;

void Append(const std::vector<float>& from, std::vector<float>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Something of every kernel that has barriers or shuffles, and of those that write where others read.
std::vector<float> EveryKernel(DType pages_dtype) {
  BackendRig rig(TestedCudaOptions(MathMode::kBF16));
  Backend& backend = rig.backend();
  std::vector<float> results;

  const RigTensor x = rig.Put({5, kHidden}, Random(5 * kHidden, 1));
  const RigTensor norm = rig.Put({kHidden}, Random(kHidden, 2));
  ExpectOk(backend.RmsNorm(rig.stream(), x.view, norm.view, 1e-5f, x.view));
  Append(rig.Get(x), results);

  const std::vector<float> weight = Random(70 * 64, 3);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const auto packed =
        *backend.PackWeight(ConstTensorView(weight.data(), DType::kF32, {70, 64}), {}, {.format = format});
    for (const std::int64_t rows : {1, 7, 40}) {
      const RigTensor in = rig.Put({rows, 64}, Random(rows * 64, 4));
      const RigTensor out = rig.Make({rows, 70});
      ExpectOk(backend.MatMul(rig.stream(), in.view, *packed, out.view));
      Append(rig.Get(out), results);
    }
  }

  const RigPages pages = MakePages(rig, pages_dtype, kTokens, kKvHeads, 16, kHeadDim);
  std::vector<std::int32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  const RigTensor at = rig.PutIndices(positions);
  const RigTensor table = rig.Put({kTokens, kHeadDim / 2}, Random(kTokens * kHeadDim / 2, 5));
  const RopeTable rope{table.view, table.view};
  constexpr std::int64_t kWidth = kKvHeads * kHeadDim;
  const RigTensor codes = rig.Put({kTokens, 24}, Random(kTokens * 24, 6), 0, DType::kBF16);
  const auto decoder = rig.Pack({kWidth, 24}, Random(kWidth * 24, 7), Random(kWidth, 8));
  ExpectOk(backend.DecodeIntoKv(rig.stream(), codes.view, *decoder, KvPart::kK, at.view, &rope, pages.kv));
  ExpectOk(backend.DecodeIntoKv(rig.stream(), codes.view, *decoder, KvPart::kV, at.view, nullptr, pages.kv));
  const RigTensor q = rig.Put({kTokens, kHeads, kHeadDim}, Random(kTokens * kHeads * kHeadDim, 9));
  const RigTensor out = rig.Make({kTokens, kHeads, kHeadDim});
  const std::vector<AttentionSequence> sequences = {
      {0, 1, kTokens - 1, pages.kv}, {1, 3, kTokens - 3, pages.kv}, {4, kTokens - 4, 4, pages.kv}};
  for (const std::int64_t window : {0, 50}) {
    ExpectOk(backend.Attention(rig.stream(), q.view, sequences, {.scale = 0.2f, .sliding_window = window},
                               out.view));
    Append(rig.Get(out), results);
  }
  return results;
}

TEST(CudaThreadOrderTest, DoesNotChangeAnything) {
  for (const DType dtype : kPageDTypes) {
    UseThreadOrder(0);
    const std::vector<float> in_order = EveryKernel(dtype);
    for (const std::uint64_t seed : {1, 2, 3}) {
      UseThreadOrder(seed);
      EXPECT_EQ(EveryKernel(dtype), in_order) << "seed " << seed << " pages " << DTypeName(dtype);
    }
  }
  UseThreadOrder(0);
}

}  // namespace
}  // namespace scd::testing
