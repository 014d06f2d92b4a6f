// The rotation of one pair of numbers of a head: element i turns with element i + head_dim / 2.
#ifndef SCD_KERNELS_CUDA_TURN_CUH_
#define SCD_KERNELS_CUDA_TURN_CUH_

#include <cuda_runtime.h>

namespace scd::cuda {

struct Pair {
  float low;   // element i
  float high;  // element i + head_dim / 2
};

__device__ inline Pair Turn(Pair x, float cos, float sin) {
  return {x.low * cos - x.high * sin, x.high * cos + x.low * sin};
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_TURN_CUH_
