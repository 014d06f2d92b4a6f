// The parity suite: every op of every backend against the reference backend, over shapes that are not round.
// A backend joins by adding its options to kParityBackends.
#ifndef SCD_TESTS_KERNELS_PARITY_H_
#define SCD_TESTS_KERNELS_PARITY_H_

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/backend_rig.h"

namespace scd::testing {

struct ParityBackend {
  const char* name;
  BackendOptions options;
  // What the reference computes products with, and how far the backend may be from it.
  MathMode reference_math;
  double product_tolerance;
};

inline void PrintTo(const ParityBackend& backend, std::ostream* out) {
  *out << backend.name;
}

inline const ParityBackend kParityBackends[] = {
    {"cpu_one_thread", {.device = "cpu", .num_threads = 1, .math = MathMode::kF32}, MathMode::kF32, 1e-5},
    {"cpu_three_threads", {.device = "cpu", .num_threads = 3, .math = MathMode::kF32}, MathMode::kF32, 1e-5},
    {"cpu_bf16", {.device = "cpu", .num_threads = 2, .math = MathMode::kBF16}, MathMode::kBF16, 1e-5},
    {"cpu_bf16_against_f32",
     {.device = "cpu", .num_threads = 2, .math = MathMode::kBF16},
     MathMode::kF32,
     2e-2},
    // Whatever this CPU is best at.
    {"cpu_auto", {.device = "cpu", .num_threads = 0, .math = MathMode::kAuto}, MathMode::kF32, 2e-2},
};

class ParityTest : public ::testing::TestWithParam<ParityBackend> {
 protected:
  ParityTest()
      : tested_(GetParam().options), reference_({.device = "reference", .math = GetParam().reference_math}) {}

  // Runs `op` on both backends and compares what it returns.
  void Compare(const std::string& what, double tolerance,
               const std::function<std::vector<float>(BackendRig&)>& op) {
    const std::vector<float> reference = op(reference_);
    ExpectClose(op(tested_), reference, tolerance, what);
  }

  BackendRig tested_;
  BackendRig reference_;
};

inline std::string ParityName(const ::testing::TestParamInfo<ParityBackend>& info) {
  return info.param.name;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_KERNELS_PARITY_H_
