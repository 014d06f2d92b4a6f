// The parity suite: every op of every backend against the reference backend, over shapes that are not round.
// A backend joins by adding its options to a list of ParityBackends.
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
  // How far its attention may be from the reference's, over queries, K and V that bf16 holds exactly.
  double attention_tolerance = 5e-6;
};

inline void PrintTo(const ParityBackend& backend, std::ostream* out) {
  *out << backend.name;
}

// Those of a test binary: each has its own list, and says what must be done before one of them is made.
const std::vector<ParityBackend>& ParityBackends();
void Prepare(const ParityBackend& backend);

class ParityTest : public ::testing::TestWithParam<ParityBackend> {
 protected:
  ParityTest()
      : tested_(Prepared(GetParam())),
        reference_({.device = "reference", .math = GetParam().reference_math}) {}

  // Runs `op` on both backends and compares what it returns.
  void Compare(const std::string& what, double tolerance,
               const std::function<std::vector<float>(BackendRig&)>& op) {
    const std::vector<float> reference = op(reference_);
    ExpectClose(op(tested_), reference, tolerance, what);
  }

  BackendRig tested_;
  BackendRig reference_;

 private:
  static const BackendOptions& Prepared(const ParityBackend& backend) {
    Prepare(backend);
    return backend.options;
  }
};

inline std::string ParityName(const ::testing::TestParamInfo<ParityBackend>& info) {
  return info.param.name;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_KERNELS_PARITY_H_
