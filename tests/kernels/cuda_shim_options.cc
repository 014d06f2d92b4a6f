#include "tests/kernels/cuda_options.h"

namespace scd::testing {

BackendOptions CudaShimOptions(MathMode math) {
  return {.device = "cuda", .math = math, .cuda = {.plugin = SCD_CUDA_SHIM, .scratch_mib = 1}};
}

}  // namespace scd::testing
