// Dense products: weights in f32 or bf16, as the backend's math says, and Gemm.
#include <string>

#include "bench/kernels/weights.h"

namespace scd {
namespace {

void Gemm(benchmark::State& state, Rig& rig, std::int64_t m, std::int64_t k, std::int64_t n) {
  Tensor a({m, k}), b({n, k}), c({m, n});
  rig.Measure(
      state,
      {.flop = 2.0 * static_cast<double>(m * k * n),
       .bytes = 4.0 * static_cast<double>(m * k + n * k + m * n)},
      [&] { return rig.backend->Gemm(*rig.stream, a.view(), b.view(), c.view(), {.transpose_b = true}); });
}

}  // namespace

void RegisterProducts(Rig& rig) {
  RegisterWeights(rig, WeightFormat::kDense, "MatMul/dense/", {1, 4, 16, 64, 256, 512});
  // The aligner's and the decoders' shapes over a whole prefix.
  for (const auto& [k, n] :
       {std::pair<std::int64_t, std::int64_t>{96, kKvDim}, {128, kKvDim}, {576, 1024}, {1024, 576}}) {
    const std::string name = "Gemm/" + std::to_string(k) + "x" + std::to_string(n) + "/rows";
    Settled(benchmark::RegisterBenchmark(
                name.c_str(),
                [&rig, k = k, n = n](benchmark::State& state) { Gemm(state, rig, state.range(0), k, n); }))
        ->Arg(512)
        ->Arg(2048);
  }
}

}  // namespace scd
