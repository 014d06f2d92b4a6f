#include "common/translate/rebuilder_workspace.h"

#include <cstring>

#include "absl/memory/memory.h"
#include "common/wire/payload_format.h"
#include "common/wire/payload_numbers.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<RebuilderWorkspace>> RebuilderWorkspace::Create(const void* owner,
                                                                               Backend& backend,
                                                                               const RebuilderWidths& widths,
                                                                               std::int64_t max_tokens) {
  if (max_tokens < 1) return absl::InvalidArgumentError("a rebuilder's workspace holds at least one token");
  auto workspace = absl::WrapUnique(new RebuilderWorkspace(owner, backend, widths, max_tokens));
  SCD_RETURN_IF_ERROR(workspace->Allocate());
  return workspace;
}

absl::Status RebuilderWorkspace::Allocate() {
  const auto rows_of = [this](MemoryKind kind, std::int64_t width, DType dtype) {
    return backend_.Allocate(kind, static_cast<std::size_t>(max_tokens_ * width) * DTypeBytes(dtype));
  };
  for (Slot& slot : ring_) {
    SCD_ASSIGN_OR_RETURN(slot.codes,
                         rows_of(MemoryKind::kStaging, widths_.largest_rank, StagingDType(widths_.codec)));
    SCD_ASSIGN_OR_RETURN(slot.positions, rows_of(MemoryKind::kStaging, 1, DType::kI32));
  }
  SCD_ASSIGN_OR_RETURN(device_codes_, rows_of(MemoryKind::kDevice, widths_.largest_rank, DType::kF32));
  SCD_ASSIGN_OR_RETURN(device_positions_, rows_of(MemoryKind::kDevice, 1, DType::kI32));
  SCD_ASSIGN_OR_RETURN(k_, rows_of(MemoryKind::kDevice, widths_.d_kv, DType::kF32));
  SCD_ASSIGN_OR_RETURN(v_, rows_of(MemoryKind::kDevice, widths_.d_kv, DType::kF32));
  if (widths_.hidden > 0) {
    SCD_ASSIGN_OR_RETURN(hidden_, rows_of(MemoryKind::kDevice, widths_.hidden, DType::kF32));
    SCD_ASSIGN_OR_RETURN(mlp_, rows_of(MemoryKind::kDevice, widths_.mlp_width, DType::kF32));
  }
  SCD_ASSIGN_OR_RETURN(done_, backend_.CreateEvent());
  return absl::OkStatus();
}

absl::Status RebuilderWorkspace::Begin(Stream& stream) {
  return used_ ? backend_.Wait(stream, *done_) : absl::OkStatus();
}

absl::Status RebuilderWorkspace::End(Stream& stream) {
  used_ = true;
  return backend_.Record(*done_, stream);
}

absl::Status RebuilderWorkspace::Upload(Stream& stream, const LayerCode& code, std::int64_t begin,
                                        std::int64_t count) {
  if (next_slot_ == ring_.size()) {
    SCD_RETURN_IF_ERROR(backend_.Synchronize(stream));
    next_slot_ = 0;
  }
  const Slot& slot = ring_[next_slot_++];
  const Shape codes_shape{count, code.rank};
  const TensorView staged = slot.codes->View(StagingDType(code.codec), codes_shape);
  if (IsQuantized(code.codec)) {
    DecodeNumbers(code, begin, count, staged.as<float>());
  } else {
    std::memcpy(staged.data(), code.payload.data() + PayloadBytes(code.codec, code.kind, begin, code.rank),
                static_cast<std::size_t>(PayloadBytes(code.codec, code.kind, count, code.rank)));
  }
  auto* const positions = static_cast<std::int32_t*>(slot.positions->data());
  for (std::int64_t i = 0; i < count; ++i) {
    positions[i] = static_cast<std::int32_t>(code.first_token + begin + i);
  }
  const TensorView codes = device_codes_->View(DType::kF32, codes_shape);
  const TensorView device_positions = device_positions_->View(DType::kI32, Shape{count});
  SCD_RETURN_IF_ERROR(backend_.Copy(stream, codes, staged));
  SCD_RETURN_IF_ERROR(
      backend_.Copy(stream, device_positions, slot.positions->View(DType::kI32, Shape{count})));
  codes_ = codes;
  positions_ = device_positions;
  return absl::OkStatus();
}

}  // namespace scd
