// Numbers to the payload of a code and back, on the host, codec by codec.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels/rig.h"
#include "common/wire/entropy_coder.h"
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

// Latent columns as a fit leaves them: deviations fall from 10 steps to 0.3 over the first two thirds, the
// rest is not sent. About 1.4 bits a number, all columns counted.
class LatentCodes {
 public:
  static constexpr std::int64_t kColumns = 384;
  static constexpr std::int64_t kSent = kColumns * 2 / 3;

  explicit LatentCodes(std::int64_t tokens) : rows({tokens, kColumns}) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> deviations, steps;
    std::vector<std::int32_t> frequencies;
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const float share = std::min(1.0f, static_cast<float>(c) / static_cast<float>(kSent - 1));
      deviations.push_back(10.0f * std::pow(0.03f, std::sqrt(share)));
      steps.push_back(c < kSent ? 1.0f : 0.0f);
      std::vector<std::int64_t> counts(static_cast<std::size_t>(kEntropySymbols), 0);
      for (int sample = 0; sample < 10000; ++sample) {
        const float q = std::nearbyint(normal(random) * deviations.back());
        ++counts[static_cast<std::size_t>(std::abs(q) <= kLargestSymbolValue ? q + kLargestSymbolValue
                                                                             : kEscapeSymbol)];
      }
      const std::vector<std::int32_t> row =
          c < kSent ? FitFrequencies(counts) : std::vector<std::int32_t>(counts.size(), 0);
      frequencies.insert(frequencies.end(), row.begin(), row.end());
    }
    float* const numbers = rows.view().as<float>();
    for (std::int64_t i = 0; i < tokens * kColumns; ++i) {
      numbers[i] = normal(random) * deviations[static_cast<std::size_t>(i % kColumns)];
    }
    coder = *EntropyCoder::Create({steps, frequencies});
  }

  Tensor rows;
  std::unique_ptr<EntropyCoder> coder;
};

// As bf16 the numbers take two bytes each: "bf16_bytes/s" compares with what a link carries without the
// codec.
void MeasureCoding(benchmark::State& state, Rig& rig, double payload_bytes,
                   const std::function<absl::Status()>& op) {
  const double numbers = static_cast<double>(state.range(0) * LatentCodes::kColumns);
  rig.Measure(state, {.bytes = 4.0 * numbers + payload_bytes}, op);
  using benchmark::Counter;
  state.counters["bf16_bytes/s"] =
      Counter(2.0 * numbers, Counter::kIsIterationInvariantRate, Counter::kIs1000);
  state.counters["bits/number"] = 8.0 * payload_bytes / numbers;
}

void EncodeEntropy(benchmark::State& state, Rig& rig, Codec /*codec*/) {
  const std::int64_t tokens = state.range(0);
  LatentCodes codes(tokens);
  const auto payload_bytes =
      static_cast<double>(codes.coder->Encode(codes.rows.view().as<float>(), tokens)->size());
  MeasureCoding(state, rig, payload_bytes,
                [&] { return codes.coder->Encode(codes.rows.view().as<float>(), tokens).status(); });
}

void DecodeEntropy(benchmark::State& state, Rig& rig, Codec /*codec*/) {
  const std::int64_t tokens = state.range(0);
  LatentCodes codes(tokens);
  const std::string payload = *codes.coder->Encode(codes.rows.view().as<float>(), tokens);
  MeasureCoding(state, rig, static_cast<double>(payload.size()), [&] {
    return codes.coder->Decode(payload, tokens, 0, tokens, codes.rows.view().as<float>());
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
  add("EncodeNumbers/", Codec::kEntropy, EncodeEntropy);
  add("DecodeNumbers/", Codec::kEntropy, DecodeEntropy);
  for (const Codec codec : kAllCodecs) {
    if (!HasFixedSize(codec)) continue;
    add("EncodeNumbers/", codec, Encode);
    add("DecodeNumbers/", codec, Decode);
  }
}

}  // namespace scd
