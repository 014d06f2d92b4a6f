// The device's side of bad_index.h.
#ifndef SCD_KERNELS_CUDA_BAD_INDEX_CUH_
#define SCD_KERNELS_CUDA_BAD_INDEX_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bad_index.h"

namespace scd::cuda {

// Whether `value`, element `index` of `operand`, is in [0, limit); if not, *word says so unless it is taken.
__device__ inline bool CheckIndex(std::int32_t value, std::int64_t limit, IndexOperand operand,
                                  std::int64_t index, BadIndexWord* word) {
  if (value >= 0 && value < limit) return true;
  const BadIndexWord packed = (static_cast<BadIndexWord>(operand) << kBadOperandShift) |
                              ((static_cast<BadIndexWord>(index) & kBadIndexMask) << kBadIndexShift) |
                              static_cast<BadIndexWord>(static_cast<std::uint32_t>(value));
  atomicCAS(word, BadIndexWord{0}, packed);
  return false;
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_BAD_INDEX_CUH_
