// How a kernel is started and how its body reaches the shared memory that its launch asked for. The only
// place that knows the syntax of launches: builds that compile the same bodies for the CPU put another file
// of this name before this one.
#ifndef SCD_KERNELS_CUDA_LAUNCH_H_
#define SCD_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstddef>

namespace scd::cuda {

// Beyond this a kernel must say that it may use so much.
inline constexpr std::size_t kPlainSharedBytes = 48 * 1024;

// Queues kernel(arguments...) on `stream`; shared_bytes is what DynamicShared gives to each block.
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, const Arguments&... arguments) {
  if (shared_bytes > kPlainSharedBytes) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
  }
  kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}

// Aligned to 32 bytes, contents undefined.
template <typename T>
__device__ inline T* DynamicShared() {
  extern __shared__ __align__(32) unsigned char scd_dynamic_shared[];
  return reinterpret_cast<T*>(scd_dynamic_shared);
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_LAUNCH_H_
