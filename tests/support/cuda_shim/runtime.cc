#include "tests/support/cuda_shim/runtime.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/cuda_shim/address_sanitizer.h"

namespace {

using scd::cuda_shim::LogMark;

// What was queued, and how much of it has run.
struct Queue {
  std::deque<std::function<void()>> work;
  std::uint64_t pushed = 0;
  std::uint64_t done = 0;
  LogMark logged;
};

}  // namespace

struct CUstream_st {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};

struct CUevent_st {
  std::shared_ptr<Queue> queue;  // nullptr: never recorded
  std::uint64_t mark = 0;
  scd::cuda_shim::LogMark logged;
};

namespace scd::cuda_shim {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr std::size_t kMostBytes = std::size_t{1} << 40;
constexpr unsigned int kMostBlockThreads = 1024;
constexpr unsigned int kMostGridYZ = 65535;
constexpr std::size_t kMostSharedBytes = 99 * 1024;
constexpr int kUnwritten = 0xff;
constexpr std::size_t kDeviceBytes = std::size_t{640} << 20;

enum class Place { kPageable, kPinned, kDevice, kBeyond };

class Runtime {
 public:
  Runtime() {
    const char* const most = std::getenv("SCD_CUDA_SHIM_MOST_ALLOCATIONS");
    if (most != nullptr) most_device_allocations_ = std::atoll(most);
  }

  std::recursive_mutex& mutex() { return mutex_; }
  std::set<CUstream_st*>& streams() { return streams_; }
  int device_count = 1;

  cudaError_t Allocate(void** memory, std::size_t bytes, Place place) {
    *memory = nullptr;
    if (place == Place::kDevice && num_device_allocations_ >= most_device_allocations_) {
      return cudaErrorMemoryAllocation;
    }
    if (bytes <= kMostBytes) *memory = ::operator new(bytes, kAlignment, std::nothrow);
    if (*memory == nullptr) return cudaErrorMemoryAllocation;
    std::memset(*memory, kUnwritten, bytes);
    memory_[static_cast<std::byte*>(*memory)] = {bytes, place};
    if (place == Place::kDevice) {
      ++num_device_allocations_;
      device_bytes_ += bytes;
    }
    if (place == Place::kDevice) HideFromHost(*memory, bytes);
    return cudaSuccess;
  }

  // As CUDA's, waits for all that is queued.
  cudaError_t Free(void* memory) {
    if (memory == nullptr) return cudaSuccess;
    const auto found = memory_.find(static_cast<std::byte*>(memory));
    if (found == memory_.end()) return cudaErrorInvalidValue;
    RunAll();
    ShowToDevice(memory, found->second.bytes);
    if (found->second.place == Place::kDevice) device_bytes_ -= found->second.bytes;
    memory_.erase(found);
    ::operator delete(memory, kAlignment);
    return cudaSuccess;
  }

  OperationLogger& logger() { return logger_; }

  std::size_t device_bytes() const { return device_bytes_; }
  std::int64_t num_device_allocations() const { return num_device_allocations_; }

  void RunTo(Queue& queue, std::uint64_t mark) {
    while (queue.done < mark) {
      const std::function<void()> work = std::move(queue.work.front());
      queue.work.pop_front();
      const Access access(*this);
      work();
      ++queue.done;
    }
  }

  void RunAll() {
    for (CUstream_st* stream : streams_) RunTo(*stream->queue, stream->queue->pushed);
  }

  Place PlaceOf(const void* memory, std::size_t bytes) const {
    const auto* first = static_cast<const std::byte*>(memory);
    auto after = memory_.upper_bound(const_cast<std::byte*>(first));
    if (after == memory_.begin()) return Place::kPageable;
    const auto& [begin, allocation] = *--after;
    if (first >= begin + allocation.bytes) return Place::kPageable;
    return first + bytes <= begin + allocation.bytes ? allocation.place : Place::kBeyond;
  }

  // Device memory may be touched while one lives.
  class Access {
   public:
    explicit Access(Runtime& runtime) : runtime_(runtime) {
      if (runtime_.depth_++ == 0) runtime_.ForDeviceMemory(ShowToDevice);
    }
    ~Access() {
      if (--runtime_.depth_ == 0) runtime_.ForDeviceMemory(HideFromHost);
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  struct Allocation {
    std::size_t bytes;
    Place place;
  };

  void ForDeviceMemory(void (*apply)(void*, std::size_t)) {
    for (const auto& [memory, allocation] : memory_) {
      if (allocation.place == Place::kDevice) apply(memory, allocation.bytes);
    }
  }

  std::recursive_mutex mutex_;
  std::set<CUstream_st*> streams_;
  std::map<std::byte*, Allocation> memory_;
  std::size_t device_bytes_ = 0;
  std::int64_t num_device_allocations_ = 0;
  std::int64_t most_device_allocations_ = std::numeric_limits<std::int64_t>::max();
  OperationLogger logger_;
  int depth_ = 0;
};

Runtime& TheRuntime() {
  static Runtime runtime;
  return runtime;
}

using Lock = std::lock_guard<std::recursive_mutex>;

void CopyRows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
              std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    std::memmove(static_cast<char*>(dst) + row * dst_pitch, static_cast<const char*>(src) + row * src_pitch,
                 width);
  }
}

std::size_t Extent(std::size_t pitch, std::size_t width, std::size_t height) {
  return height == 0 ? 0 : (height - 1) * pitch + width;
}

}  // namespace

void Enqueue(CUstream_st* stream, std::function<void()> work, OpKind kind) {
  const Lock lock(TheRuntime().mutex());
  if (kind != OpKind::kWait) TheRuntime().logger().Add(kind, stream, stream->queue->logged, nullptr);
  stream->queue->work.push_back(std::move(work));
  ++stream->queue->pushed;
}

bool CanLaunch(dim3 grid, dim3 block, std::size_t shared_bytes) {
  return block.x * block.y * block.z >= 1 && block.x * block.y * block.z <= kMostBlockThreads &&
         grid.x >= 1 && grid.x < (1u << 31) && grid.y >= 1 && grid.y <= kMostGridYZ && grid.z >= 1 &&
         grid.z <= kMostGridYZ && shared_bytes <= kMostSharedBytes;
}

void SetThreadOrder(std::uint64_t seed) {
  const Lock lock(TheRuntime().mutex());
  SetOrder(seed);
}

void StartLog() {
  const Lock lock(TheRuntime().mutex());
  TheRuntime().logger().Start();
}

OperationLog TakeLog() {
  const Lock lock(TheRuntime().mutex());
  return TheRuntime().logger().Take();
}

std::int64_t NumDeviceAllocations() {
  const Lock lock(TheRuntime().mutex());
  return TheRuntime().num_device_allocations();
}

void SetDeviceCount(int count) {
  const Lock lock(TheRuntime().mutex());
  TheRuntime().device_count = count;
}

}  // namespace scd::cuda_shim

using scd::cuda_shim::Lock;
using scd::cuda_shim::OpKind;
using scd::cuda_shim::Place;
using scd::cuda_shim::TheRuntime;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return "cudaErrorInvalidValue";
  }
}

const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "as the cuda shim says";
}

// Errors are answered by the call that meets them alone.
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(TheRuntime().mutex());
  *count = TheRuntime().device_count;
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(TheRuntime().mutex());
  TheRuntime().RunAll();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {"CPU under the cuda shim", std::size_t{1} << 32, 8, 0, 1};
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Lock lock(TheRuntime().mutex());
  return TheRuntime().Allocate(memory, bytes, Place::kDevice);
}

cudaError_t cudaFree(void* memory) {
  const Lock lock(TheRuntime().mutex());
  return TheRuntime().Free(memory);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(TheRuntime().mutex());
  *total = scd::cuda_shim::kDeviceBytes;
  *free = *total - std::min(*total, TheRuntime().device_bytes());
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const Lock lock(TheRuntime().mutex());
  return TheRuntime().Allocate(memory, bytes, Place::kPinned);
}

cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(memory);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int /*flags*/) {
  const Lock lock(TheRuntime().mutex());
  *stream = new CUstream_st;
  TheRuntime().streams().insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(TheRuntime().mutex());
  TheRuntime().RunTo(*stream->queue, stream->queue->pushed);
  TheRuntime().streams().erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(TheRuntime().mutex());
  TheRuntime().logger().AddSynchronized(stream);
  TheRuntime().RunTo(*stream->queue, stream->queue->pushed);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  const Lock lock(TheRuntime().mutex());
  if (event->queue == nullptr) return cudaSuccess;
  TheRuntime().logger().Add(OpKind::kWait, stream, stream->queue->logged, &event->logged);
  scd::cuda_shim::Enqueue(
      stream, [queue = event->queue, mark = event->mark] { TheRuntime().RunTo(*queue, mark); },
      OpKind::kWait);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(TheRuntime().mutex());
  event->queue = stream->queue;
  event->mark = stream->queue->pushed;
  event->logged = stream->queue->logged;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(TheRuntime().mutex());
  if (event->queue != nullptr) TheRuntime().RunTo(*event->queue, event->mark);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(TheRuntime().mutex());
  return event->queue == nullptr || event->queue->done >= event->mark ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMemcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/) {
  const Lock lock(TheRuntime().mutex());
  if (TheRuntime().PlaceOf(dst, scd::cuda_shim::Extent(dst_pitch, width, height)) == Place::kBeyond ||
      TheRuntime().PlaceOf(src, scd::cuda_shim::Extent(src_pitch, width, height)) == Place::kBeyond ||
      width > dst_pitch || width > src_pitch) {
    return cudaErrorInvalidValue;
  }
  const scd::cuda_shim::Runtime::Access access(TheRuntime());
  scd::cuda_shim::CopyRows(dst, dst_pitch, src, src_pitch, width, height);
  return cudaSuccess;
}

// Pageable memory is read at once and written only when all before has run; pinned and device memory when the
// copy runs.
cudaError_t cudaMemcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const Lock lock(TheRuntime().mutex());
  const Place to = TheRuntime().PlaceOf(dst, scd::cuda_shim::Extent(dst_pitch, width, height));
  const Place from = TheRuntime().PlaceOf(src, scd::cuda_shim::Extent(src_pitch, width, height));
  if (to == Place::kBeyond || from == Place::kBeyond || width > dst_pitch || width > src_pitch) {
    return cudaErrorInvalidValue;
  }
  if (to == Place::kPageable) {
    TheRuntime().logger().AddSynchronized(stream);
    TheRuntime().RunTo(*stream->queue, stream->queue->pushed);
    return cudaMemcpy2D(dst, dst_pitch, src, src_pitch, width, height, kind);
  }
  const OpKind op = to == Place::kPinned     ? OpKind::kCopyToHost
                    : from == Place::kDevice ? OpKind::kCopyOnDevice
                                             : OpKind::kCopyToDevice;
  if (from == Place::kPageable) {
    std::vector<char> staged(width * height);
    scd::cuda_shim::CopyRows(staged.data(), width, src, src_pitch, width, height);
    scd::cuda_shim::Enqueue(
        stream,
        [=, staged = std::move(staged)] {
          scd::cuda_shim::CopyRows(dst, dst_pitch, staged.data(), width, width, height);
        },
        op);
    return cudaSuccess;
  }
  scd::cuda_shim::Enqueue(
      stream, [=] { scd::cuda_shim::CopyRows(dst, dst_pitch, src, src_pitch, width, height); }, op);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(dst, bytes, src, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  const Lock lock(TheRuntime().mutex());
  if (TheRuntime().PlaceOf(memory, bytes) != Place::kDevice) return cudaErrorInvalidValue;
  const scd::cuda_shim::Runtime::Access access(TheRuntime());
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(TheRuntime().mutex());
  if (TheRuntime().PlaceOf(memory, bytes) != Place::kDevice) return cudaErrorInvalidValue;
  scd::cuda_shim::Enqueue(
      stream, [=] { std::memset(memory, value, bytes); }, OpKind::kSet);
  return cudaSuccess;
}
