// Attention over pages of every storage type: prefill, a chunk after a long prefix, a native tail, decoding.
#include <cmath>
#include <string>
#include <vector>

#include "bench/kernels/rig.h"

namespace scd {
namespace {

void Attend(benchmark::State& state, Rig& rig, DType dtype) {
  const std::int64_t sequences = state.range(0), first_position = state.range(1), queries = state.range(2);
  Pages pages(sequences, first_position + queries, dtype);
  std::vector<AttentionSequence> calls;
  for (std::int64_t s = 0; s < sequences; ++s) {
    calls.push_back({s * queries, queries, first_position, pages.of(s)});
  }
  Tensor q({sequences * queries, kHeads, kHeadDim}), out({sequences * queries, kHeads, kHeadDim});
  const AttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim))};
  const auto rows = static_cast<double>(sequences * queries);
  // Pairs of a query and a position that it attends to.
  const double pairs = rows * (static_cast<double>(first_position) + static_cast<double>(queries + 1) / 2);
  const auto positions = static_cast<double>(sequences * (first_position + queries));
  rig.Measure(state,
              {.flop = 4.0 * pairs * kHeads * kHeadDim,
               .bytes = positions * pages.bytes_per_position() + 8.0 * rows * kHeads * kHeadDim},
              [&] { return rig.backend->Attention(*rig.stream, q.view(), calls, options, out.view()); });
}

}  // namespace

void RegisterAttention(Rig& rig) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    const std::string name = std::string("Attention/") + NameOf(dtype) + "/sequences/first_position/queries";
    Settled(benchmark::RegisterBenchmark(
                name.c_str(), [&rig, dtype](benchmark::State& state) { Attend(state, rig, dtype); }))
        ->Args({1, 0, 512})
        ->Args({1, 1792, 256})
        ->Args({1, 2031, 17})
        ->Args({1, 512, 1})
        ->Args({1, 2047, 1})
        ->Args({16, 512, 1});
  }
}

}  // namespace scd
