// Streams and events of the cuda backend, and the scratch memory that each stream has for its ops.
#ifndef SCD_KERNELS_CUDA_CUDA_STREAM_H_
#define SCD_KERNELS_CUDA_CUDA_STREAM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/bad_index.h"
#include "kernels/cuda/cuda_memory.h"

namespace scd::cuda {

class CudaStream final : public Stream {
 public:
  // On the current device, with scratch_bytes of `memory` for what an op needs besides its operands.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(DeviceMemory& memory, std::size_t scratch_bytes);
  // Takes no memory; for copies between equal dtypes alone.
  static absl::StatusOr<std::unique_ptr<CudaStream>> CreateForCopies();
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  // Where kernels note a bad index (bad_index.h).
  BadIndexWord* bad_index() const { return static_cast<BadIndexWord*>(bad_index_->data()); }
  const CudaBuffer& scratch() const { return *scratch_; }
  // Then it has neither of these.
  bool for_copies() const { return scratch_ == nullptr; }

  // Waits for all that was queued. INVALID_ARGUMENT where an op since the last call met a bad index.
  absl::Status Synchronize();

 private:
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}

  const cudaStream_t stream_;
  // All nullptr where it is for copies.
  std::unique_ptr<CudaBuffer> scratch_;
  std::unique_ptr<CudaBuffer> bad_index_;       // one BadIndexWord
  std::unique_ptr<CudaBuffer> host_bad_index_;  // pinned; what Synchronize reads
};

class CudaEvent final : public Event {
 public:
  static absl::StatusOr<std::unique_ptr<CudaEvent>> Create();
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t get() const { return event_; }

 private:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}

  const cudaEvent_t event_;
};

// One op's share of its stream's scratch memory: taken from the beginning by every op, for ops of one stream
// follow each other.
class Scratch {
 public:
  explicit Scratch(const CudaStream& stream)
      : next_(static_cast<std::byte*>(stream.scratch().data())), left_(stream.scratch().size_bytes()) {}

  std::size_t left() const { return left_; }
  // Aligned to 256 bytes. RESOURCE_EXHAUSTED where there is not so much left.
  absl::StatusOr<void*> Take(std::size_t bytes);

 private:
  std::byte* next_;
  std::size_t left_;
};

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_CUDA_STREAM_H_
