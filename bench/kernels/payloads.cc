// Numbers to the payload of a code and back, on the host, codec by codec.
#include <string>

#include "bench/kernels/rig.h"
#include "common/wire/payload_format.h"
#include "common/wire/payload_numbers.h"

namespace scd {
namespace {

constexpr std::int64_t kRank = 96;

void Encode(benchmark::State& state, Rig& rig, Codec codec) {
  const std::int64_t tokens = state.range(0);
  Tensor rows({tokens, kRank});
  const double bytes = 4.0 * static_cast<double>(tokens * kRank) +
                       static_cast<double>(PayloadBytes(codec, CodeKind::kV, tokens, kRank));
  rig.Measure(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(EncodeNumbers(codec, CodeKind::kV, rows.view().as<float>(), tokens, kRank));
    return absl::OkStatus();
  });
}

void Decode(benchmark::State& state, Rig& rig, Codec codec) {
  const std::int64_t tokens = state.range(0);
  Tensor rows({tokens, kRank}), out({tokens, kRank});
  LayerCode code;
  code.kind = CodeKind::kV;
  code.codec = codec;
  code.num_tokens = tokens;
  code.rank = kRank;
  code.payload = EncodeNumbers(codec, CodeKind::kV, rows.view().as<float>(), tokens, kRank);
  const double bytes = 4.0 * static_cast<double>(tokens * kRank) + static_cast<double>(code.payload.size());
  rig.Measure(state, {.bytes = bytes}, [&] {
    DecodeNumbers(code, 0, tokens, out.view().as<float>());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterPayloads(Rig& rig) {
  const auto add = [&rig](const char* what, Codec codec, void (*run)(benchmark::State&, Rig&, Codec)) {
    const std::string name = std::string(what) + std::string(CodecName(codec)) + "/tokens";
    Settled(benchmark::RegisterBenchmark(
                name.c_str(), [&rig, codec, run](benchmark::State& state) { run(state, rig, codec); }))
        ->Arg(64)
        ->Arg(512);
  };
  for (const Codec codec : kAllCodecs) {
    add("EncodeNumbers/", codec, Encode);
    add("DecodeNumbers/", codec, Decode);
  }
}

}  // namespace scd
