// The parity suite's backends on a GPU: the plug-in that SCD_CUDA_PLUGIN names, or the one beside the
// program.
#include <cstdlib>

#include "tests/kernels/cuda_options.h"
#include "tests/kernels/parity.h"

namespace scd::testing {
namespace {

// Products on tensor cores keep fewer bits of their sums than f32 has.
constexpr double kTensorCoreTolerance = 1e-4;
// They take the weights of attention as bf16.
constexpr double kAttentionTolerance = 4e-3;

}  // namespace

BackendOptions TestedCudaOptions(MathMode math) {
  const char* const plugin = std::getenv("SCD_CUDA_PLUGIN");
  return {
      .device = "cuda", .math = math, .cuda = {.plugin = plugin == nullptr ? "" : plugin, .scratch_mib = 1}};
}

void UseThreadOrder(std::uint64_t /*seed*/) {}

const std::vector<ParityBackend>& ParityBackends() {
  static const std::vector<ParityBackend> backends = {
      {"cuda_f32", TestedCudaOptions(MathMode::kF32), MathMode::kF32, 1e-5},
      {"cuda_bf16", TestedCudaOptions(MathMode::kBF16), MathMode::kBF16, kTensorCoreTolerance,
       kAttentionTolerance},
  };
  return backends;
}

void Prepare(const ParityBackend& /*backend*/) {}

}  // namespace scd::testing
