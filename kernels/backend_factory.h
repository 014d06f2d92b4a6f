// Makes the backend that a configuration names.
#ifndef SCD_KERNELS_BACKEND_FACTORY_H_
#define SCD_KERNELS_BACKEND_FACTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace scd {

struct BackendOptions {
  std::string device = "cpu";  // "cpu" or "reference"
  int num_threads = 0;         // threads of the cpu backend; 0: one for each core this process may use
  MathMode math = MathMode::kAuto;
};

// INVALID_ARGUMENT with the known names where `device` is not one of them.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const BackendOptions& options);

}  // namespace scd

#endif  // SCD_KERNELS_BACKEND_FACTORY_H_
