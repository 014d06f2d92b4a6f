// Makes the backend that a configuration names.
#ifndef SCD_KERNELS_BACKEND_FACTORY_H_
#define SCD_KERNELS_BACKEND_FACTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace scd {

struct CudaOptions {
  // Path of the backend's shared library; empty: beside the program, or in ../lib/scd from there.
  std::string plugin = {};
  int device = 0;  // which GPU, as the driver counts them
  // MiB of device memory taken at start, from which all that is allocated later comes; nullopt: what is free
  // but for a reserve of the driver's; 0: none, each allocation is the driver's.
  std::optional<std::int64_t> memory_mib = 0;
  // MiB of device memory that each stream has for what ops need besides their operands. Long inputs are
  // worked on in pieces that fit.
  std::int64_t scratch_mib = 128;
};

struct BackendOptions {
  std::string device = "cpu";  // "cpu", "cuda" or "reference"
  int num_threads = 0;         // threads of the cpu backend; 0: one for each core this process may use
  MathMode math = MathMode::kAuto;
  CudaOptions cuda = {};
};

// INVALID_ARGUMENT with the known names where `device` is not one of them; FAILED_PRECONDITION with the
// reason where cuda is configured and not possible here.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const BackendOptions& options);

}  // namespace scd

#endif  // SCD_KERNELS_BACKEND_FACTORY_H_
