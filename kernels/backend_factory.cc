#include "kernels/backend_factory.h"

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/load_plugin.h"
#include "kernels/reference/reference_backend.h"

namespace scd {

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const BackendOptions& options) {
  if (options.device == "cpu") return CpuBackend::Create(options);
  if (options.device == "cuda") return CreateCudaBackend(options);
  if (options.device == "reference") return ReferenceBackend::Create(options);
  return absl::InvalidArgumentError(
      absl::StrCat("device is \"", options.device, "\", expected one of: cpu, reference, cuda"));
}

}  // namespace scd
