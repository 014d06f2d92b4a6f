#include "tests/kernels/parity.h"

namespace scd::testing {

const std::vector<ParityBackend>& ParityBackends() {
  static const std::vector<ParityBackend> backends = {
      {"cpu_one_thread", {.device = "cpu", .num_threads = 1, .math = MathMode::kF32}, MathMode::kF32, 1e-5},
      {"cpu_three_threads",
       {.device = "cpu", .num_threads = 3, .math = MathMode::kF32},
       MathMode::kF32,
       1e-5},
      {"cpu_bf16", {.device = "cpu", .num_threads = 2, .math = MathMode::kBF16}, MathMode::kBF16, 1e-5},
      {"cpu_bf16_against_f32",
       {.device = "cpu", .num_threads = 2, .math = MathMode::kBF16},
       MathMode::kF32,
       2e-2},
      // Whatever this CPU is best at.
      {"cpu_auto", {.device = "cpu", .num_threads = 0, .math = MathMode::kAuto}, MathMode::kF32, 2e-2},
  };
  return backends;
}

void Prepare(const ParityBackend& /*backend*/) {}

}  // namespace scd::testing
