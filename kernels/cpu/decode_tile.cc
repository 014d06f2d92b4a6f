#include "kernels/cpu/decode_tile.h"

#include "kernels/cpu/cpu_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/decode_tile.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as they hold per-target code.
#include "kernels/cpu/kv_vector-inl.h"
#include "kernels/cpu/rope-inl.h"
#include "kernels/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(CpuWeight::kPanelColumns == kTileColumns);

// codes of `tokens` -> wide [tokens, rank].
void WidenCodes(const DecodeTask& task, Range tokens, float* HWY_RESTRICT wide) {
  const std::int64_t rank = task.codes.dim(1);
  for (std::int64_t t = tokens.begin; t < tokens.end; ++t, wide += rank) {
    if (task.codes.dtype() == DType::kBF16) {
      LoadKv(task.codes.row<std::uint16_t>(t), nullptr, rank, wide);
      continue;
    }
    const float* codes = task.codes.row<float>(t);
    for (std::int64_t i = 0; i < rank; ++i) {
      wide[i] = task.round_codes ? Bf16ToFloat(FloatToBf16(codes[i])) : codes[i];
    }
  }
}

template <typename T>
void FinishRows(const DecodeTask& task, Range tokens, float* rows, std::int64_t stride) {
  const KvSlots& slots = task.slots;
  const std::int64_t head_dim = slots.head_dim();
  const WideFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t t = tokens.begin; t < tokens.end; ++t, rows += stride) {
    const std::int64_t position = task.positions[t];
    if (task.bias != nullptr) {
      std::int64_t i = 0;
      for (; i + lanes <= task.d_kv(); i += lanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, rows + i), hn::LoadU(d, task.bias + i)), d, rows + i);
      }
      for (; i < task.d_kv(); ++i) rows[i] += task.bias[i];
    }
    if (task.rope != nullptr) {
      RopeHeads(rows, slots.kv_heads(), head_dim / 2, task.rope->cos.row<float>(position),
                task.rope->sin.row<float>(position));
    }
    for (std::int64_t h = 0; h < slots.kv_heads(); ++h) {
      StoreKv(rows + h * head_dim, head_dim, slots.Vector<T>(h, position), slots.Scale(h, position));
    }
  }
}

void FinishTileRows(const DecodeTask& task, Range tokens, float* rows, std::int64_t stride) {
  switch (task.slots.dtype()) {
    case DType::kBF16:
      return FinishRows<std::uint16_t>(task, tokens, rows, stride);
    case DType::kI8:
      return FinishRows<std::int8_t>(task, tokens, rows, stride);
    default:
      return FinishRows<float>(task, tokens, rows, stride);
  }
}

void DecodeTileRows(const DecodeTask& task, Range tokens, float* scratch) {
  const std::int64_t rank = task.codes.dim(1);
  const std::int64_t columns = Partition::RoundUp(task.d_kv(), kTileColumns);
  float* const rows = scratch;
  float* const codes = rows + kDecodeTileTokens * columns;
  WidenCodes(task, tokens, codes);
  for (std::int64_t column = 0; column < columns; column += kTileColumns) {
    TileProduct(tokens.end - tokens.begin, rank, codes, rank, task.panels + column * rank, kTileColumns,
                rows + column, columns, false);
  }
  FinishTileRows(task, tokens, rows, columns);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(DecodeTileRows);
HWY_EXPORT(FinishTileRows);

std::size_t DecodeScratchFloats(const DecodeTask& task, std::int64_t tokens) {
  const std::int64_t columns = Partition::RoundUp(task.d_kv(), CpuWeight::kPanelColumns);
  return static_cast<std::size_t>(tokens * (columns + task.codes.dim(1)));
}

void DecodeTile(const DecodeTask& task, Range tokens, float* scratch) {
  HWY_DYNAMIC_DISPATCH(DecodeTileRows)(task, tokens, scratch);
}

void FinishTile(const DecodeTask& task, Range tokens, float* rows, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(FinishTileRows)(task, tokens, rows, stride);
}

}  // namespace scd::cpu
#endif
