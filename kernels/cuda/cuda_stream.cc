#include "kernels/cuda/cuda_stream.h"

#include <cstdint>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/status_macros.h"

namespace scd::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

struct OperandName {
  std::string_view op;
  std::string_view operand;
};

OperandName NameOf(IndexOperand operand) {
  switch (operand) {
    case IndexOperand::kRopePositions:
      return {"Rope", "positions"};
    case IndexOperand::kEmbedIds:
      return {"Embed", "ids"};
    case IndexOperand::kWriteKvPositions:
      return {"WriteKv", "positions"};
    case IndexOperand::kWriteKvBlockTable:
      return {"WriteKv", "block_table"};
    case IndexOperand::kDecodeIntoKvPositions:
      return {"DecodeIntoKv", "positions"};
    case IndexOperand::kDecodeIntoKvBlockTable:
      return {"DecodeIntoKv", "block_table"};
    case IndexOperand::kAttentionBlockTable:
      return {"Attention", "block_table"};
  }
  return {"an op", "index"};
}

absl::Status BadIndex(BadIndexWord word) {
  const OperandName name = NameOf(static_cast<IndexOperand>(word >> kBadOperandShift));
  return Bad(name.op, name.operand, "has ", static_cast<std::int32_t>(static_cast<std::uint32_t>(word)),
             " at index ", (word >> kBadIndexShift) & kBadIndexMask, ", which is out of range");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::CreateForCopies() {
  cudaStream_t stream = nullptr;
  SCD_RETURN_IF_ERROR(
      ToStatus("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
  return absl::WrapUnique(new CudaStream(stream));
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(DeviceMemory& memory,
                                                               std::size_t scratch_bytes) {
  SCD_ASSIGN_OR_RETURN(auto made, CreateForCopies());
  SCD_ASSIGN_OR_RETURN(made->scratch_, memory.Allocate(MemoryKind::kDevice, scratch_bytes));
  SCD_ASSIGN_OR_RETURN(made->bad_index_, memory.Allocate(MemoryKind::kDevice, sizeof(BadIndexWord)));
  SCD_ASSIGN_OR_RETURN(made->host_bad_index_, memory.Allocate(MemoryKind::kStaging, sizeof(BadIndexWord)));
  SCD_RETURN_IF_ERROR(
      ToStatus("cudaMemset", cudaMemsetAsync(made->bad_index(), 0, sizeof(BadIndexWord), made->stream_)));
  return made;
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

absl::Status CudaStream::Synchronize() {
  if (for_copies()) return ToStatus("Synchronize", cudaStreamSynchronize(stream_));
  constexpr std::size_t kBytes = sizeof(BadIndexWord);
  auto* word = static_cast<BadIndexWord*>(host_bad_index_->data());
  SCD_RETURN_IF_ERROR(
      ToStatus("Synchronize", cudaMemcpyAsync(word, bad_index(), kBytes, cudaMemcpyDefault, stream_)));
  SCD_RETURN_IF_ERROR(ToStatus("Synchronize", cudaStreamSynchronize(stream_)));
  if (*word == 0) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(ToStatus("Synchronize", cudaMemsetAsync(bad_index(), 0, kBytes, stream_)));
  return BadIndex(*word);
}

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create() {
  cudaEvent_t event = nullptr;
  SCD_RETURN_IF_ERROR(ToStatus("cudaEventCreate", cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
  return absl::WrapUnique(new CudaEvent(event));
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);
}

absl::StatusOr<void*> Scratch::Take(std::size_t bytes) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded > left_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an op needs ", bytes, " bytes of a stream's scratch memory, which has ", left_, " left"));
  }
  void* memory = next_;
  next_ += rounded;
  left_ -= rounded;
  return memory;
}

}  // namespace scd::cuda
