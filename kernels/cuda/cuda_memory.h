// Memory of the device, and pinned memory of the host that copies to and from it fast.
#ifndef SCD_KERNELS_CUDA_CUDA_MEMORY_H_
#define SCD_KERNELS_CUDA_CUDA_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace scd::cuda {

// Owned; what is queued on it is waited for before it is freed. Aligned to 256 bytes.
class CudaBuffer final : public Buffer {
 public:
  // On the current device. RESOURCE_EXHAUSTED where the memory is not there.
  static absl::StatusOr<std::unique_ptr<CudaBuffer>> Create(MemoryKind kind, std::size_t bytes);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void* data() const override { return data_; }
  std::size_t size_bytes() const override { return bytes_; }
  Device device() const override { return kind_ == MemoryKind::kDevice ? Device::kCuda : Device::kHost; }

 private:
  CudaBuffer(MemoryKind kind, void* data, std::size_t bytes) : kind_(kind), data_(data), bytes_(bytes) {}

  const MemoryKind kind_;
  void* const data_;
  const std::size_t bytes_;
};

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_CUDA_MEMORY_H_
