#include "tests/kernels/cuda_options.h"
#include "tests/kernels/parity.h"
#include "tests/support/cuda_shim/runtime.h"

namespace scd::testing {
namespace {

constexpr char kShuffled[] = "cuda_bf16_shuffled";
constexpr std::uint64_t kSeed = 5;

}  // namespace

const std::vector<ParityBackend>& ParityBackends() {
  static const std::vector<ParityBackend> backends = {
      {"cuda_f32", TestedCudaOptions(MathMode::kF32), MathMode::kF32, 1e-5},
      // Threads and blocks in another order than they are numbered. Tensor cores take weights as bf16.
      {kShuffled, TestedCudaOptions(MathMode::kBF16), MathMode::kBF16, 1e-5, 4e-3},
  };
  return backends;
}

void Prepare(const ParityBackend& backend) {
  cuda_shim::SetThreadOrder(std::string(backend.name) == kShuffled ? kSeed : 0);
}

}  // namespace scd::testing
