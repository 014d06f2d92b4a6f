#include "tests/kernels/cuda_options.h"
#include "tests/support/cuda_shim/runtime.h"

namespace scd::testing {

BackendOptions TestedCudaOptions(MathMode math) {
  return {.device = "cuda", .math = math, .cuda = {.plugin = SCD_CUDA_SHIM, .scratch_mib = 1}};
}

void UseThreadOrder(std::uint64_t seed) {
  cuda_shim::SetThreadOrder(seed);
}

}  // namespace scd::testing
