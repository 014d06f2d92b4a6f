// A backend whose memory is the host's and that says it is another device's: codes take the whole way to it.
#ifndef SCD_TESTS_COMMON_TRANSLATE_ELSEWHERE_BACKEND_H_
#define SCD_TESTS_COMMON_TRANSLATE_ELSEWHERE_BACKEND_H_

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/support/gated_backend.h"

namespace scd::testing {

class ElsewhereBackend final : public GatedBackend {
 public:
  using GatedBackend::GatedBackend;
  Device device() const override { return Device::kCuda; }
};

// "reference", "cpu" or "elsewhere", which computes as cpu does. Null, and a failed test, where there is
// none.
inline std::unique_ptr<Backend> TestBackend(const std::string& name) {
  const bool elsewhere = name == "elsewhere";
  auto backend =
      CreateBackend({.device = elsewhere ? "cpu" : name, .num_threads = 2, .math = MathMode::kF32});
  EXPECT_TRUE(backend.ok()) << backend.status();
  if (!backend.ok()) return nullptr;
  if (!elsewhere) return *std::move(backend);
  return std::make_unique<ElsewhereBackend>(*std::move(backend));
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_TRANSLATE_ELSEWHERE_BACKEND_H_
