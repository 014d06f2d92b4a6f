#include "common/translate/encoder_workspace.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<EncoderWorkspace>> EncoderWorkspace::Create(const void* owner,
                                                                           Backend& backend,
                                                                           const EncoderSizes& sizes,
                                                                           std::int64_t max_tokens) {
  if (max_tokens < 1) return absl::InvalidArgumentError("an encoder's workspace holds at least one token");
  auto workspace = absl::WrapUnique(new EncoderWorkspace(owner, backend, sizes, max_tokens));
  SCD_RETURN_IF_ERROR(workspace->Allocate());
  return workspace;
}

absl::Status EncoderWorkspace::Allocate() {
  const auto rows_of = [this](std::int64_t width, DType dtype) {
    return backend_.Allocate(MemoryKind::kDevice,
                             static_cast<std::size_t>(max_tokens_ * width) * DTypeBytes(dtype));
  };
  if (on_host() || sizes_.staging_dtype != DType::kF32 || sizes_.integers) {
    SCD_ASSIGN_OR_RETURN(codes_, rows_of(sizes_.most_columns, DType::kF32));
  }
  if (sizes_.positions) {
    SCD_ASSIGN_OR_RETURN(positions_, rows_of(1, DType::kI32));
  }
  for (std::size_t i = 0; i < sizes_.num_kept; ++i) {
    SCD_ASSIGN_OR_RETURN(kept_rows_.emplace_back(), rows_of(sizes_.hidden, DType::kF32));
  }
  slots_.resize(on_host() ? 1 : kSlotsOfDevice);
  for (Slot& slot : slots_) SCD_RETURN_IF_ERROR(AllocateSlot(slot));
  if (on_host()) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(copies_, backend_.CreateStream(StreamUse::kCopies));
  return absl::OkStatus();
}

absl::Status EncoderWorkspace::AllocateSlot(Slot& slot) {
  std::size_t bytes =
      static_cast<std::size_t>(max_tokens_ * sizes_.most_columns) * DTypeBytes(sizes_.staging_dtype);
  // Of few rows, integers with their scales may take more than the numbers.
  const GroupedIntegers largest{.bits = 8, .by_column = true, .columns = sizes_.most_columns};
  if (sizes_.integers) bytes = std::max(bytes, static_cast<std::size_t>(largest.BytesOf(max_tokens_)));
  SCD_ASSIGN_OR_RETURN(slot.staging, backend_.Allocate(MemoryKind::kStaging, bytes));
  if (sizes_.positions) {
    SCD_ASSIGN_OR_RETURN(slot.staged_positions,
                         backend_.Allocate(MemoryKind::kStaging,
                                           static_cast<std::size_t>(max_tokens_) * sizeof(std::int32_t)));
  }
  if (on_host()) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(slot.leaving, backend_.Allocate(MemoryKind::kDevice, bytes));
  SCD_ASSIGN_OR_RETURN(slot.made, backend_.CreateEvent());
  SCD_ASSIGN_OR_RETURN(slot.arrived, backend_.CreateEvent());
  return absl::OkStatus();
}

absl::StatusOr<EncoderWorkspace::Slot*> EncoderWorkspace::Take() {
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& candidate) { return !candidate.taken; });
  if (slot == slots_.end()) {
    return absl::FailedPreconditionError("LayerEncoder: as many codes are pending as the workspace holds");
  }
  // Of a code that nobody finished.
  if (slot->leaves) SCD_RETURN_IF_ERROR(backend_.Await(*slot->arrived));
  slot->leaves = false;
  slot->taken = true;
  return &*slot;
}

TensorView EncoderWorkspace::Codes(const Slot& slot, std::int64_t rows, std::int64_t columns) const {
  return (codes_ != nullptr ? codes_ : slot.leaving)->View(DType::kF32, Shape{rows, columns});
}

absl::Status EncoderWorkspace::Leave(Stream& stream, Slot& slot, const ConstTensorView& numbers,
                                     const std::optional<GroupedIntegers>& integers) {
  const bool packs = integers.has_value() && !on_host();
  const DType dtype = packs ? DType::kU8 : sizes_.staging_dtype;
  const Shape shape = packs ? Shape{integers->BytesOf(numbers.dim(0))} : numbers.shape();
  const TensorView staging = slot.staging->View(dtype, shape);
  slot.staged = staging;
  if (on_host()) return backend_.Copy(stream, staging, numbers);
  const TensorView leaving = slot.leaving->View(dtype, shape);
  if (packs) {
    SCD_RETURN_IF_ERROR(backend_.PackCodes(stream, numbers, *integers, leaving));
  } else if (numbers.data() != leaving.data()) {
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, leaving, numbers));
  }
  SCD_RETURN_IF_ERROR(backend_.Record(*slot.made, stream));
  SCD_RETURN_IF_ERROR(backend_.Wait(*copies_, *slot.made));
  SCD_RETURN_IF_ERROR(backend_.Copy(*copies_, staging, leaving));
  SCD_RETURN_IF_ERROR(backend_.Record(*slot.arrived, *copies_));
  slot.leaves = true;
  return absl::OkStatus();
}

absl::StatusOr<ConstTensorView> EncoderWorkspace::Arrived(Slot& slot) {
  if (slot.leaves) SCD_RETURN_IF_ERROR(backend_.Await(*slot.arrived));
  slot.leaves = false;
  return slot.staged;
}

absl::StatusOr<bool> EncoderWorkspace::HasArrived(const Slot& slot) {
  if (!slot.leaves) return true;
  return backend_.Reached(*slot.arrived);
}

}  // namespace scd
