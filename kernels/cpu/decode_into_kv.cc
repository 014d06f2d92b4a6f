// Reuse codes into KV pages: threads take tiles of tokens, so that no tensor of all tokens is written to
// memory.
#include <algorithm>
#include <cstdint>

#include "kernels/checks.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/decode_tile.h"
#include "kernels/cpu/rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Below this many multiplications waking another thread costs more than it saves.
constexpr std::int64_t kMinSharedProducts = 1 << 17;

// Tokens of a tile, and of which it holds a multiple, where another kernel makes the product: large enough
// that handing it over does not count.
constexpr std::int64_t kForeignTileTokens = 128;
constexpr std::int64_t kForeignTileGranule = 16;

// A tile of a weight that multiplies in a layout of its own: the same steps around its product. scratch as
// for DecodeTile.
absl::Status DecodeForeignTile(const cpu::CpuWeight& weight, const cpu::DecodeTask& task, cpu::Range tokens,
                               cpu::ThreadPool& pool, float* scratch) {
  const std::int64_t count = tokens.end - tokens.begin;
  const TensorView rows(scratch, DType::kF32, {count, task.d_kv()});
  const TensorView codes(scratch + count * task.d_kv(), DType::kF32, {count, task.codes.dim(1)});
  cpu::ConvertRows(task.codes.rows(tokens.begin, count), codes, 0, count);
  SCD_RETURN_IF_ERROR(weight.Multiply(pool, codes, rows, {0, task.d_kv()}, false));
  cpu::FinishTile(task, tokens, rows.as<float>(), task.d_kv());
  return absl::OkStatus();
}

}  // namespace

absl::Status CpuBackend::DecodeIntoKv(Stream& /*stream*/, ConstTensorView codes, const PackedWeight& decoder,
                                      KvPart part, ConstTensorView positions, const RopeTable* rope,
                                      const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckDecodeIntoKv(codes, decoder, positions, rope, kv, device()));
  SCD_RETURN_IF_ERROR(CheckPositions("DecodeIntoKv", positions, kv));
  if (rope != nullptr) {
    SCD_RETURN_IF_ERROR(CheckIndices("DecodeIntoKv", "positions", positions, rope->cos.dim(0)));
  }
  const auto* weight = dynamic_cast<const cpu::CpuWeight*>(&decoder);
  if (weight == nullptr) {
    return absl::InvalidArgumentError("DecodeIntoKv: decoder was packed by another backend");
  }
  const float* const panels = weight->Panels();
  const cpu::DecodeTask task{.codes = codes,
                             .round_codes = weight->rounds_x(),
                             .panels = panels,
                             .bias = panels == nullptr ? nullptr : weight->bias(),
                             .positions = positions.as<std::int32_t>(),
                             .rope = rope,
                             .slots = cpu::KvSlots(kv, part)};
  const std::int64_t tokens = codes.dim(0);
  const std::int64_t products = tokens * task.d_kv() * codes.dim(1);
  const std::int64_t runners =
      products < kMinSharedProducts ? 1 : std::min<std::int64_t>(pool_->num_threads(), tokens);
  // Tiles of one size, as many as there are runners or a multiple of that.
  const std::int64_t most = panels == nullptr ? kForeignTileTokens : cpu::kDecodeTileTokens;
  const std::int64_t granule = panels == nullptr ? kForeignTileGranule : cpu::kDecodeTileGranule;
  const std::int64_t rounds = cpu::Partition::CeilDiv(tokens, runners * most);
  const cpu::Partition tiles(tokens, runners * rounds, granule);
  return cpu::RunWithScratch(*pool_, runners, tiles.num_pieces(),
                             {cpu::DecodeScratchFloats(task, most), "a tile of codes"},
                             [&](std::int64_t i, float* scratch) {
                               if (panels == nullptr) {
                                 return DecodeForeignTile(*weight, task, tiles[i], *callers_own_, scratch);
                               }
                               cpu::DecodeTile(task, tiles[i], scratch);
                               return absl::OkStatus();
                             });
}

}  // namespace scd
