// Writing K and V into pages, and a frame of Reuse codes decoded, turned and written in one pass.
#include <string>

#include "bench/kernels/rig.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxTokens = 2048;

void Write(benchmark::State& state, Rig& rig, DType dtype) {
  const std::int64_t tokens = state.range(0);
  Pages pages(1, kMaxTokens, dtype);
  Tensor k({tokens, kKvHeads, kHeadDim}), v({tokens, kKvHeads, kHeadDim}), positions({tokens}, DType::kI32);
  const auto rows = static_cast<double>(tokens);
  rig.Measure(state, {.bytes = rows * (8.0 * kKvDim + pages.bytes_per_position())}, [&] {
    return rig.backend->WriteKv(*rig.stream, k.view(), v.view(), positions.view(), pages.of(0));
  });
}

void Decode(benchmark::State& state, Rig& rig, DType dtype, KvPart part, std::int64_t rank) {
  const std::int64_t tokens = state.range(0);
  Pages pages(1, kMaxTokens, dtype);
  Tensor codes({tokens, rank}, DType::kBF16), numbers({kKvDim, rank}), bias({kKvDim});
  Tensor positions({tokens}, DType::kI32), cos({kMaxTokens, kHeadDim / 2}), sin({kMaxTokens, kHeadDim / 2});
  const RopeTable rope{cos.view(), sin.view()};
  const auto decoder = rig.backend->PackWeight(numbers.view(), bias.view());
  if (!decoder.ok()) {
    state.SkipWithError(decoder.status().ToString().c_str());
    return;
  }
  const auto rows = static_cast<double>(tokens);
  rig.Measure(state,
              {.flop = 2.0 * rows * static_cast<double>(rank * kKvDim),
               .bytes = rows * (2.0 * static_cast<double>(rank) + pages.bytes_per_position() / 2) +
                        static_cast<double>((*decoder)->size_bytes())},
              [&] {
                return rig.backend->DecodeIntoKv(*rig.stream, codes.view(), **decoder, part, positions.view(),
                                                 part == KvPart::kK ? &rope : nullptr, pages.of(0));
              });
}

}  // namespace

void RegisterRebuild(Rig& rig) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    const auto add = [dtype](const char* what, const std::function<void(benchmark::State&)>& run) {
      Settled(benchmark::RegisterBenchmark((std::string(what) + NameOf(dtype) + "/tokens").c_str(), run))
          ->Arg(1)
          ->Arg(64)
          ->Arg(512)
          ->Arg(kMaxTokens);
    };
    add("WriteKv/", [&rig, dtype](benchmark::State& state) { Write(state, rig, dtype); });
    add("DecodeIntoKv/k96/",
        [&rig, dtype](benchmark::State& state) { Decode(state, rig, dtype, KvPart::kK, 96); });
    add("DecodeIntoKv/v128/",
        [&rig, dtype](benchmark::State& state) { Decode(state, rig, dtype, KvPart::kV, 128); });
  }
}

}  // namespace scd
