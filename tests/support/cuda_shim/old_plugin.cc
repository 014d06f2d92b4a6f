// A plug-in of an earlier version than any program that would load it.
#include "kernels/cuda/plugin.h"

extern "C" const scd::CudaPlugin* scd_cuda_plugin() {
  static constexpr scd::CudaPlugin kPlugin{.version = 0};
  return &kPlugin;
}
