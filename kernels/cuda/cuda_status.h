// Errors of CUDA's runtime as statuses.
#ifndef SCD_KERNELS_CUDA_CUDA_STATUS_H_
#define SCD_KERNELS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string_view>

#include "absl/status/status.h"

namespace scd::cuda {

// OK for cudaSuccess. Else "what: NAME, DESCRIPTION": RESOURCE_EXHAUSTED where memory is not there,
// FAILED_PRECONDITION where driver or GPU are not, INTERNAL for all else.
absl::Status ToStatus(std::string_view what, cudaError_t error);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_CUDA_STATUS_H_
