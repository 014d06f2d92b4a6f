#include "kernels/cuda/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"

namespace scd::cuda {

absl::Status ToStatus(std::string_view what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text =
      absl::StrCat(Text(what), ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error));
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(text);
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace scd::cuda
