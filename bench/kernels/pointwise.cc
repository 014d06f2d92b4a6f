// RMSNorm, RoPE, SwiGLU and Embed.
#include <cstdint>
#include <string>

#include "bench/kernels/rig.h"

namespace scd {
namespace {

void Norm(benchmark::State& state, Rig& rig) {
  const std::int64_t rows = state.range(0);
  Tensor x({rows, kHidden}), weight({kHidden}), out({rows, kHidden});
  const auto numbers = static_cast<double>(rows * kHidden);
  rig.Measure(state, {.flop = 4.0 * numbers, .bytes = 8.0 * numbers},
              [&] { return rig.backend->RmsNorm(*rig.stream, x.view(), weight.view(), 1e-5f, out.view()); });
}

void Turn(benchmark::State& state, Rig& rig) {
  const std::int64_t tokens = state.range(0);
  Tensor x({tokens, kHeads, kHeadDim}), positions({tokens}, DType::kI32);
  Tensor cos({tokens, kHeadDim / 2}), sin({tokens, kHeadDim / 2});
  // Other table entries would let x grow without end.
  for (std::int64_t i = 0; i < cos.view().num_elements(); ++i) {
    cos.view().as<float>()[i] = 0.6f;
    sin.view().as<float>()[i] = 0.8f;
  }
  const auto numbers = static_cast<double>(tokens * kHeads * kHeadDim);
  rig.Measure(state, {.flop = 3.0 * numbers, .bytes = 8.0 * numbers}, [&] {
    return rig.backend->Rope(*rig.stream, x.view(), positions.view(), {cos.view(), sin.view()});
  });
}

void Gate(benchmark::State& state, Rig& rig) {
  const std::int64_t rows = state.range(0);
  Tensor gate({rows, kMlp}), up({rows, kMlp}), out({rows, kMlp});
  rig.Measure(state, {.bytes = 12.0 * static_cast<double>(rows * kMlp)},
              [&] { return rig.backend->SwiGlu(*rig.stream, gate.view(), up.view(), out.view()); });
}

void Look(benchmark::State& state, Rig& rig, DType dtype) {
  const std::int64_t tokens = state.range(0);
  Tensor table({kVocabulary, kHidden}, dtype), ids({tokens}, DType::kI32), out({tokens, kHidden});
  // Far apart, as tokens of a text are.
  for (std::int64_t i = 0; i < tokens; ++i) {
    ids.view().as<std::int32_t>()[i] = static_cast<std::int32_t>((i * 7919 + 13) % kVocabulary);
  }
  const double bytes = static_cast<double>(DTypeBytes(dtype)) + 4.0;
  rig.Measure(state, {.bytes = bytes * static_cast<double>(tokens * kHidden)},
              [&] { return rig.backend->Embed(*rig.stream, table.view(), ids.view(), out.view()); });
}

}  // namespace

void RegisterPointwise(Rig& rig) {
  const auto add = [&rig](const char* name, void (*run)(benchmark::State&, Rig&)) {
    Settled(benchmark::RegisterBenchmark(name, [&rig, run](benchmark::State& state) { run(state, rig); }))
        ->Arg(1)
        ->Arg(16)
        ->Arg(512);
  };
  add("RmsNorm/rows", Norm);
  add("Rope/tokens", Turn);
  add("SwiGlu/rows", Gate);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Settled(benchmark::RegisterBenchmark((std::string("Embed/") + NameOf(dtype) + "/tokens").c_str(),
                                         [&rig, dtype](benchmark::State& state) { Look(state, rig, dtype); }))
        ->Arg(1)
        ->Arg(512);
  }
}

}  // namespace scd
