#include "kernels/cuda/cuda_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/status_macros.h"

namespace scd::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
// What `auto` leaves: the driver keeps kernels, their stacks and graphs in device memory.
constexpr std::size_t kLeastReserve = 512 * kMiB;
constexpr std::size_t kReserveShare = 32;  // one part in so many of the device's memory

struct DeviceSizes {
  std::size_t free = 0;
  std::size_t total = 0;
};

absl::StatusOr<DeviceSizes> AskDevice() {
  DeviceSizes sizes;
  SCD_RETURN_IF_ERROR(ToStatus("cudaMemGetInfo", cudaMemGetInfo(&sizes.free, &sizes.total)));
  return sizes;
}

absl::Status Malloc(MemoryKind kind, std::size_t bytes, const std::string& what, void** data) {
  const cudaError_t error =
      kind == MemoryKind::kDevice ? cudaMalloc(data, bytes) : cudaMallocHost(data, bytes);
  // An error of an allocation would be met again by whoever asks for the last error next.
  if (error != cudaSuccess) cudaGetLastError();
  return ToStatus(what, error);
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceMemory>> DeviceMemory::Create(std::optional<std::int64_t> mib) {
  std::size_t bytes = 0;
  if (mib) {
    bytes = static_cast<std::size_t>(*mib) * kMiB;
  } else {
    SCD_ASSIGN_OR_RETURN(const DeviceSizes sizes, AskDevice());
    const std::size_t reserve = std::max(kLeastReserve, sizes.total / kReserveShare);
    if (sizes.free < reserve + kMiB) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cuda.memory_mib: auto: ", sizes.free / kMiB, " MiB of the GPU's ", sizes.total / kMiB,
                       " are free, ", reserve / kMiB,
                       " are left to the driver; give a number of MiB, or free memory of the GPU"));
    }
    bytes = (sizes.free - reserve) / kMiB * kMiB;
  }
  void* base = nullptr;
  if (bytes > 0) {
    SCD_RETURN_IF_ERROR(Malloc(MemoryKind::kDevice, bytes,
                               absl::StrCat("cuda.memory_mib: ", bytes / kMiB, " MiB of device memory"),
                               &base));
  }
  return std::shared_ptr<DeviceMemory>(new DeviceMemory(base, bytes));
}

// Nothing could be done about an error here; a broken device shows in the next op.
DeviceMemory::~DeviceMemory() {
  if (base_ != nullptr) cudaFree(base_);
}

absl::Status DeviceMemory::Synchronize() {
  const std::lock_guard<std::mutex> lock(recording_);
  return ToStatus("waiting for the device", cudaDeviceSynchronize());
}

absl::StatusOr<std::int64_t> DeviceMemory::FreeBytes() {
  if (base_ == nullptr) {
    SCD_ASSIGN_OR_RETURN(const DeviceSizes sizes, AskDevice());
    return static_cast<std::int64_t>(sizes.free);
  }
  SCD_RETURN_IF_ERROR(Reclaim());
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<std::int64_t>(arena_.free_bytes());
}

absl::Status DeviceMemory::Reclaim() {
  std::vector<std::size_t> given;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    given.swap(given_);
  }
  if (given.empty()) return absl::OkStatus();
  const absl::Status status = Synchronize();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::size_t offset : given) arena_.Give(offset);
  return status;
}

std::optional<std::size_t> DeviceMemory::Take(std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return arena_.Take(bytes);
}

void DeviceMemory::Give(void* piece) {
  const std::lock_guard<std::mutex> lock(mutex_);
  given_.push_back(static_cast<std::size_t>(static_cast<std::byte*>(piece) - base_));
}

absl::StatusOr<std::unique_ptr<CudaBuffer>> DeviceMemory::Allocate(MemoryKind kind, std::size_t bytes) {
  constexpr std::size_t kMaxBytes = std::numeric_limits<std::ptrdiff_t>::max() / 2;
  const bool on_device = kind == MemoryKind::kDevice;
  const std::string what = absl::StrCat(bytes, " bytes of ", on_device ? "device" : "pinned", " memory");
  if (bytes > kMaxBytes) return absl::ResourceExhaustedError(what + " are more than there can be");
  if (!on_device || base_ == nullptr) {
    void* data = nullptr;
    SCD_RETURN_IF_ERROR(Malloc(kind, std::max<std::size_t>(bytes, 1), what, &data));
    return absl::WrapUnique(new CudaBuffer(kind, data, bytes, nullptr));
  }
  std::optional<std::size_t> offset = Take(bytes);
  if (!offset) {
    SCD_RETURN_IF_ERROR(Reclaim());
    offset = Take(bytes);
  }
  if (offset) return absl::WrapUnique(new CudaBuffer(kind, base_ + *offset, bytes, shared_from_this()));
  const std::lock_guard<std::mutex> lock(mutex_);
  return absl::ResourceExhaustedError(absl::StrCat(
      what, ": of the ", bytes_ / kMiB, " MiB that cuda.memory_mib sets aside ", arena_.free_bytes(),
      " bytes are left, ", arena_.largest_gap(),
      " of them together; give cuda.memory_mib more, or lower kv_cache.memory_mib, cuda.scratch_mib or",
      " max_cached_plans"));
}

CudaBuffer::~CudaBuffer() {
  if (owner_ != nullptr) {
    owner_->Give(data_);
  } else if (kind_ == MemoryKind::kDevice) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

}  // namespace scd::cuda
