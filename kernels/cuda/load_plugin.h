// Finds and loads the cuda backend's shared library.
#ifndef SCD_KERNELS_CUDA_LOAD_PLUGIN_H_
#define SCD_KERNELS_CUDA_LOAD_PLUGIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"

namespace scd {

// The library at options.cuda.plugin; where that is empty libscd_cuda.so beside the program, then in
// ../lib/scd from there. FAILED_PRECONDITION that says why where there is no library, where it cannot be
// loaded (CUDA's libraries are missing), where it is of another build, or where there is no driver or no GPU
// for it. A library stays loaded for good.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const BackendOptions& options);

}  // namespace scd

#endif  // SCD_KERNELS_CUDA_LOAD_PLUGIN_H_
