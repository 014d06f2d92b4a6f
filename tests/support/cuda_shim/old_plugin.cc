// A plug-in that was built from other sources than any program that would load it.
#include "kernels/cuda/plugin.h"

extern "C" const scd::CudaPlugin* scd_cuda_plugin() {
  static constexpr scd::CudaPlugin kPlugin{.interface = 0};
  return &kPlugin;
}
