// Rebuilding one layer of a 7B shape with the heads of one rank of 1, 2, 4 or 8 (docs/scaling.md): every rank
// multiplies whole codes by the rows of the decoders that are its own heads'.
#include <string>

#include "bench/kernels/rig.h"

namespace scd {
namespace {

constexpr std::int64_t kAllHeads = 8;
constexpr std::int64_t kDim = 128;
constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kRankK = 512, kRankV = 704, kRankH = 3072, kRankFused = 1024;
constexpr std::int64_t kAlignerWidth = 1024;

// K or V of a rank's heads, and the pages that they go to.
class Shard {
 public:
  Shard(Backend& backend, std::int64_t heads, std::int64_t rank)
      : k_({kTokens / kPageTokens, heads, kPageTokens, kDim}, DType::kBF16),
        v_({kTokens / kPageTokens, heads, kPageTokens, kDim}, DType::kBF16),
        numbers_({heads * kDim, rank}),
        bias_({heads * kDim}),
        decoder_(*backend.PackWeight(numbers_.view(), bias_.view())) {}

  PagedKv pages() { return {.k_pages = k_.view(), .v_pages = v_.view(), .block_table = table_.view()}; }
  const PackedWeight& decoder() const { return *decoder_; }

 private:
  Tensor k_, v_, numbers_, bias_;
  Tensor table_{{kTokens / kPageTokens}, DType::kI32};
  std::unique_ptr<PackedWeight> decoder_;
};

struct Rope {
  Tensor cos{{kTokens, kDim / 2}}, sin{{kTokens, kDim / 2}}, positions{{kTokens}, DType::kI32};
  RopeTable table{cos.view(), sin.view()};
};

void Linear(benchmark::State& state, Rig& rig, std::int64_t rank_k, std::int64_t rank_v) {
  const std::int64_t heads = kAllHeads / state.range(0);
  Shard k(*rig.backend, heads, rank_k), v(*rig.backend, heads, rank_v);
  Tensor codes_k({kTokens, rank_k}, DType::kBF16), codes_v({kTokens, rank_v}, DType::kBF16);
  Rope rope;
  const double flop = 2.0 * static_cast<double>(kTokens * heads * kDim * (rank_k + rank_v));
  rig.Measure(state, {.flop = flop}, [&]() -> absl::Status {
    const absl::Status status = rig.backend->DecodeIntoKv(
        *rig.stream, codes_k.view(), k.decoder(), KvPart::kK, rope.positions.view(), &rope.table, k.pages());
    if (!status.ok()) return status;
    return rig.backend->DecodeIntoKv(*rig.stream, codes_v.view(), v.decoder(), KvPart::kV,
                                     rope.positions.view(), nullptr, v.pages());
  });
}

// The aligner's first product is whole on every rank, its last one is cut by head.
void Patch(benchmark::State& state, Rig& rig) {
  const std::int64_t heads = kAllHeads / state.range(0);
  const std::int64_t out = 2 * heads * kDim, inner = kRankH + kAlignerWidth;
  Shard shard(*rig.backend, heads, 1);
  Tensor in_numbers({kAlignerWidth, kRankH}), in_bias({kAlignerWidth}), out_numbers({out, inner}),
      out_bias({out});
  const auto in = *rig.backend->PackWeight(in_numbers.view(), in_bias.view());
  const auto folded = *rig.backend->PackWeight(out_numbers.view(), out_bias.view());
  Tensor work({kTokens, inner}), kv({kTokens, out});
  Rope rope;
  const Shape by_head{kTokens, heads, kDim};
  const TensorView hidden = work.view().columns(kRankH, kAlignerWidth);
  const TensorView k = kv.view().columns(0, out / 2).Reshaped(by_head);
  const TensorView v = kv.view().columns(out / 2, out / 2).Reshaped(by_head);
  const double flop = 2.0 * static_cast<double>(kTokens * (kRankH * kAlignerWidth + inner * out));
  rig.Measure(state, {.flop = flop}, [&]() -> absl::Status {
    Backend& backend = *rig.backend;
    absl::Status status = backend.MatMul(*rig.stream, work.view().columns(0, kRankH), *in, hidden);
    if (status.ok()) status = backend.Silu(*rig.stream, hidden);
    if (status.ok()) status = backend.MatMul(*rig.stream, work.view(), *folded, kv.view());
    if (status.ok()) status = backend.Rope(*rig.stream, k, rope.positions.view(), rope.table);
    return status.ok() ? backend.WriteKv(*rig.stream, k, v, rope.positions.view(), shard.pages()) : status;
  });
}

}  // namespace

void RegisterShards(Rig& rig) {
  const auto add = [](const char* way, const std::function<void(benchmark::State&)>& run) {
    Settled(benchmark::RegisterBenchmark((std::string("Shard/") + way + "/ranks").c_str(), run))
        ->RangeMultiplier(2)
        ->Range(1, kAllHeads);
  };
  add("reuse", [&rig](benchmark::State& state) { Linear(state, rig, kRankK, kRankV); });
  add("fused", [&rig](benchmark::State& state) { Linear(state, rig, kRankFused, kRankFused); });
  add("patch", [&rig](benchmark::State& state) { Patch(state, rig); });
}

}  // namespace scd
