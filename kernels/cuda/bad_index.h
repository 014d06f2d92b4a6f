// Indices (positions, ids, block tables) lie in device memory, where the host does not see them. A kernel
// that meets one out of its range leaves that row alone and notes the first of a stream in one word, which
// the stream's next Synchronize reads and answers with.
#ifndef SCD_KERNELS_CUDA_BAD_INDEX_H_
#define SCD_KERNELS_CUDA_BAD_INDEX_H_

#include <cstdint>

namespace scd::cuda {

using BadIndexWord = unsigned long long;  // 0: none; the type that atomicCAS takes

// Whose index it is; 0 is none.
enum class IndexOperand : std::uint8_t {
  kRopePositions = 1,
  kEmbedIds,
  kWriteKvPositions,
  kWriteKvBlockTable,
  kDecodeIntoKvPositions,
  kDecodeIntoKvBlockTable,
  kAttentionBlockTable,
};

// A word holds operand, index (its low 24 bits) and value.
inline constexpr int kBadOperandShift = 56;
inline constexpr int kBadIndexShift = 32;
inline constexpr BadIndexWord kBadIndexMask = 0xffffff;

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_BAD_INDEX_H_
