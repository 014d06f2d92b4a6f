// What a stretch of positions adds up to for each query vector of a block, and where it lies in memory.
#ifndef SCD_KERNELS_CPU_ATTENTION_STATE_H_
#define SCD_KERNELS_CPU_ATTENTION_STATE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/partition.h"

namespace scd::cpu {

// Query vectors and columns are grouped by this many in the memory of a block.
inline constexpr std::int64_t kAttentionGroup = 16;
// The largest score of a vector that has seen no position: far below any that occurs, but finite.
inline constexpr float kNothingYet = -1e30f;

// The sizes of a block and how a vector's place in q and out follows from its number.
struct AttentionShape {
  explicit AttentionShape(const AttentionBlock& block)
      : vectors(block.vectors()),
        head_dim(block.kv->k_pages.dim(3)),
        padded_vectors(Partition::RoundUp(vectors, kAttentionGroup)),
        padded_dim(Partition::RoundUp(head_dim, kAttentionGroup)) {}

  std::int64_t vectors;
  std::int64_t head_dim;
  std::int64_t padded_vectors;
  std::int64_t padded_dim;
};

inline std::int64_t VectorOffset(const AttentionBlock& block, std::int64_t vector, std::int64_t row_stride) {
  return vector / block.group_heads * row_stride + vector % block.group_heads * block.kv->k_pages.dim(3);
}

template <typename Float>
struct AttentionState {
  AttentionState(const AttentionShape& shape, Float* memory)
      : largest(memory),
        total(largest + shape.padded_vectors),
        sums(total + shape.padded_vectors),
        stride(shape.padded_dim) {}

  static std::size_t Floats(const AttentionShape& shape) {
    return static_cast<std::size_t>(2 * shape.padded_vectors + shape.vectors * shape.padded_dim);
  }

  Float* largest;       // [padded_vectors]: largest score, in powers of two
  Float* total;         // [padded_vectors]: sum of the weights against it
  Float* sums;          // [vectors, padded_dim]: V, weighted and added up
  std::int64_t stride;  // distance of vectors in sums
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ATTENTION_STATE_H_
