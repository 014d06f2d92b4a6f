// Codes of a few tokens into KV pages on the calling thread: product, bias, RoPE and writing, all in cache.
#ifndef SCD_KERNELS_CPU_DECODE_TILE_H_
#define SCD_KERNELS_CPU_DECODE_TILE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kv_slots.h"
#include "kernels/cpu/partition.h"
#include "kernels/rope_table.h"
#include "kernels/tensor_view.h"

namespace scd::cpu {

// Tokens of a tile at most, so that it stays in the nearest cache, and of which a tile holds a multiple.
inline constexpr std::int64_t kDecodeTileTokens = 48;
inline constexpr std::int64_t kDecodeTileGranule = 12;

struct DecodeTask {
  ConstTensorView codes;          // [tokens, rank] f32 or bf16
  bool round_codes;               // to bf16, before they are multiplied
  const float* panels;            // CpuWeight::Panels of the decoder
  const float* bias;              // [d_kv] or nullptr
  const std::int32_t* positions;  // [tokens], checked
  const RopeTable* rope;          // nullptr: none
  KvSlots slots;

  std::int64_t d_kv() const { return slots.kv_heads() * slots.head_dim(); }
};

// Memory for a tile of so many tokens, in floats.
std::size_t DecodeScratchFloats(const DecodeTask& task, std::int64_t tokens);

// Tokens [begin, end), at most kDecodeTileTokens. scratch: aligned, without a value.
void DecodeTile(const DecodeTask& task, Range tokens, float* scratch);

// What follows the product: rows [tokens, stride] hold those of `tokens`, without bias, and are overwritten.
void FinishTile(const DecodeTask& task, Range tokens, float* rows, std::int64_t stride);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_DECODE_TILE_H_
