#include "kernels/cuda/plugin.h"

#include "kernels/cuda/cuda_backend.h"

extern "C" __attribute__((visibility("default"))) const scd::CudaPlugin* scd_cuda_plugin() {
  static constexpr scd::CudaPlugin kPlugin{.interface = SCD_CUDA_INTERFACE,
                                           .create = &scd::CudaBackend::Create};
  return &kPlugin;
}
