#include "kernels/cuda/cuda_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/status_macros.h"

namespace scd::cuda {

absl::StatusOr<std::unique_ptr<CudaBuffer>> CudaBuffer::Create(MemoryKind kind, std::size_t bytes) {
  constexpr std::size_t kMaxBytes = std::numeric_limits<std::ptrdiff_t>::max() / 2;
  const bool on_device = kind == MemoryKind::kDevice;
  const std::string what = absl::StrCat(bytes, " bytes of ", on_device ? "device" : "pinned", " memory");
  if (bytes > kMaxBytes) return absl::ResourceExhaustedError(what + " are more than there can be");
  const std::size_t asked = std::max<std::size_t>(bytes, 1);
  void* data = nullptr;
  const cudaError_t error = on_device ? cudaMalloc(&data, asked) : cudaMallocHost(&data, asked);
  // An error of an allocation would be met again by whoever asks for the last error next.
  if (error != cudaSuccess) cudaGetLastError();
  SCD_RETURN_IF_ERROR(ToStatus(what, error));
  return absl::WrapUnique(new CudaBuffer(kind, data, bytes));
}

// Nothing could be done about an error here; a broken device shows in the next op.
CudaBuffer::~CudaBuffer() {
  if (kind_ == MemoryKind::kDevice) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

}  // namespace scd::cuda
