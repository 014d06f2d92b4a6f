// Memory of the device, and pinned memory of the host that copies to and from it fast.
//
// Memory of the device comes from one allocation that is made at start and shared out from then on (Arena),
// or, where none is set aside, from the driver each time.
#ifndef SCD_KERNELS_CUDA_CUDA_MEMORY_H_
#define SCD_KERNELS_CUDA_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/arena.h"

namespace scd::cuda {

class CudaBuffer;

// Of the device that was current when it was made. From several threads.
class DeviceMemory final : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // mib: MiB to set aside; 0: none; nullopt: what is free but for a reserve of the driver's.
  // RESOURCE_EXHAUSTED where that is not there.
  static absl::StatusOr<std::shared_ptr<DeviceMemory>> Create(std::optional<std::int64_t> mib);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // RESOURCE_EXHAUSTED where the memory is not there, with the fields of the configuration that ask for it.
  // Buffers may outlive this.
  absl::StatusOr<std::unique_ptr<CudaBuffer>> Allocate(MemoryKind kind, std::size_t bytes);

  // MiB that were set aside; 0: none.
  std::int64_t set_aside_mib() const { return static_cast<std::int64_t>(bytes_ >> 20); }
  absl::StatusOr<std::int64_t> FreeBytes();

  // Waits for all that is queued on the device, which cannot be while a stream's work is being recorded.
  absl::Status Synchronize();
  // Held while a stream's work is recorded.
  std::mutex& recording() { return recording_; }

 private:
  friend class CudaBuffer;
  DeviceMemory(void* base, std::size_t bytes)
      : base_(static_cast<std::byte*>(base)), bytes_(bytes), arena_(bytes) {}

  std::optional<std::size_t> Take(std::size_t bytes);
  // The piece may be in use by what was queued: it is taken again only after a wait for the device.
  void Give(void* piece);
  absl::Status Reclaim();

  std::byte* const base_;  // nullptr: none was set aside
  const std::size_t bytes_;
  std::mutex recording_;
  std::mutex mutex_;  // of the rest
  Arena arena_;
  std::vector<std::size_t> given_;  // offsets of pieces that may be in use
};

// Owned; what is queued on it ends before its memory is another's. Aligned to 256 bytes.
class CudaBuffer final : public Buffer {
 public:
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void* data() const override { return data_; }
  std::size_t size_bytes() const override { return bytes_; }
  Device device() const override { return kind_ == MemoryKind::kDevice ? Device::kCuda : Device::kHost; }

 private:
  friend class DeviceMemory;
  CudaBuffer(MemoryKind kind, void* data, std::size_t bytes, std::shared_ptr<DeviceMemory> owner)
      : kind_(kind), data_(data), bytes_(bytes), owner_(std::move(owner)) {}

  const MemoryKind kind_;
  void* const data_;
  const std::size_t bytes_;
  const std::shared_ptr<DeviceMemory> owner_;  // nullptr: the memory is the driver's
};

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_CUDA_MEMORY_H_
