// What a program and the cuda backend's shared library (libscd_cuda.so) agree on: one C function that answers
// with this struct. Both sides are built from one tree; `interface` and `build` say where they were not.
#ifndef SCD_KERNELS_CUDA_PLUGIN_H_
#define SCD_KERNELS_CUDA_PLUGIN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"

namespace scd {

// The compiler that laid out the types.
inline constexpr char kCudaPluginBuild[] = __VERSION__;

struct CudaPlugin {
  // SCD_CUDA_INTERFACE of its build: stands for the headers of Backend, BackendOptions and what they are made
  // of (cmake/CudaSources.cmake).
  std::uint32_t interface = 0;
  const char* build = kCudaPluginBuild;
  absl::StatusOr<std::unique_ptr<Backend>> (*create)(const BackendOptions& options) = nullptr;
};

inline constexpr char kCudaPluginEntry[] = "scd_cuda_plugin";
using CudaPluginFunction = const CudaPlugin* (*)();

}  // namespace scd

#endif  // SCD_KERNELS_CUDA_PLUGIN_H_
