// kernels/cuda/launch.h for the CPU: found before it by the order of include folders.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_KERNELS_CUDA_LAUNCH_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>

#include "tests/support/cuda_shim/grid.h"
#include "tests/support/cuda_shim/runtime.h"

namespace scd::cuda {

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, const Arguments&... arguments) {
  if (!cuda_shim::CanLaunch(grid, block, shared_bytes)) return cudaErrorInvalidConfiguration;
  // Arguments are copied now, as a launch does, in the types of the kernel's parameters.
  cuda_shim::Enqueue(stream, [kernel, grid, block, shared_bytes,
                              values = std::tuple<std::remove_cv_t<Parameters>...>(arguments...)] {
    cuda_shim::RunGrid(grid, block, shared_bytes, [&] { std::apply(kernel, values); });
  });
  return cudaSuccess;
}

template <typename T>
T* DynamicShared() {
  return reinterpret_cast<T*>(cuda_shim::dynamic_shared);
}

}  // namespace scd::cuda

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_KERNELS_CUDA_LAUNCH_H_
