#include "common/translate/rebuilder_workspace.h"

#include <cstring>
#include <numeric>

#include "absl/memory/memory.h"
#include "common/wire/payload_format.h"
#include "common/wire/payload_numbers.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Whether the payload holds numbers as devices read them.
bool ReadInPlace(Codec codec) {
  return HasFixedSize(codec) && !IsQuantized(codec);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RebuilderWorkspace>> RebuilderWorkspace::Create(const void* owner,
                                                                               Backend& backend,
                                                                               const RebuilderWidths& widths,
                                                                               std::int64_t max_tokens) {
  if (max_tokens < 1) return absl::InvalidArgumentError("a rebuilder's workspace holds at least one token");
  static_assert(kQuantGroup == kEntropyGranule && kQuantGroup == kFusedGranule, "one size of granules");
  const std::int64_t rounded = (max_tokens + kQuantGroup - 1) / kQuantGroup * kQuantGroup;
  auto workspace = absl::WrapUnique(new RebuilderWorkspace(owner, backend, widths, rounded));
  SCD_RETURN_IF_ERROR(workspace->Allocate());
  return workspace;
}

absl::Status RebuilderWorkspace::Allocate() {
  const auto rows_of = [this](MemoryKind kind, std::int64_t width, DType dtype) {
    return backend_.Allocate(kind, static_cast<std::size_t>(max_tokens_ * width) * DTypeBytes(dtype));
  };
  if (backend_.device() != Device::kHost) {
    const DType dtype = StagingDType(widths_.codec);
    for (Slot& slot : ring_) {
      SCD_ASSIGN_OR_RETURN(slot.codes, rows_of(MemoryKind::kStaging, widths_.most_columns, dtype));
      SCD_ASSIGN_OR_RETURN(slot.positions, rows_of(MemoryKind::kStaging, 1, DType::kI32));
    }
    SCD_ASSIGN_OR_RETURN(device_halves_, rows_of(MemoryKind::kDevice, widths_.most_columns, DType::kBF16));
  }
  SCD_ASSIGN_OR_RETURN(device_codes_, rows_of(MemoryKind::kDevice, widths_.most_columns, DType::kF32));
  SCD_ASSIGN_OR_RETURN(device_positions_, rows_of(MemoryKind::kDevice, 1, DType::kI32));
  SCD_ASSIGN_OR_RETURN(kv_, rows_of(MemoryKind::kDevice, 2 * widths_.d_kv, DType::kF32));
  if (widths_.inner > 0) {
    SCD_ASSIGN_OR_RETURN(inner_, rows_of(MemoryKind::kDevice, widths_.inner, DType::kF32));
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

absl::StatusOr<const RebuilderWorkspace::Slot*> RebuilderWorkspace::NextSlot(Stream& stream) {
  if (next_slot_ == ring_.size()) {
    SCD_RETURN_IF_ERROR(backend_.Synchronize(stream));
    next_slot_ = 0;
  }
  return &ring_[next_slot_++];
}

absl::StatusOr<ConstTensorView> RebuilderWorkspace::Numbers(const LayerCode& code,
                                                            const EntropyCoder* entropy, std::int64_t begin,
                                                            std::int64_t count, const Buffer& memory) const {
  const Shape shape{count, entropy == nullptr ? code.rank : entropy->rank()};
  if (ReadInPlace(code.codec)) {
    return ConstTensorView(code.payload.data() + PayloadBytes(code.codec, code.kind, begin, code.rank),
                           StagingDType(code.codec), shape);
  }
  auto* const numbers = static_cast<float*>(memory.data());
  if (entropy != nullptr) {
    SCD_RETURN_IF_ERROR(entropy->Decode(code.payload, code.num_tokens, begin, count, numbers));
  } else {
    DecodeNumbers(code, begin, count, numbers);
  }
  return ConstTensorView(numbers, DType::kF32, shape);
}

absl::Status RebuilderWorkspace::Upload(Stream& stream, const LayerCode& code, const EntropyCoder* entropy,
                                        std::int64_t begin, std::int64_t count, bool keep_bf16) {
  const bool on_host = backend_.device() == Device::kHost;
  const Slot* slot = nullptr;
  if (!on_host) {
    SCD_ASSIGN_OR_RETURN(slot, NextSlot(stream));
  }
  const TensorView device_positions = device_positions_->View(DType::kI32, Shape{count});
  const TensorView positions = on_host ? device_positions : slot->positions->View(DType::kI32, Shape{count});
  std::iota(positions.as<std::int32_t>(), positions.as<std::int32_t>() + count,
            static_cast<std::int32_t>(code.first_token + begin));
  positions_ = device_positions;

  SCD_ASSIGN_OR_RETURN(ConstTensorView numbers,
                       Numbers(code, entropy, begin, count, on_host ? *device_codes_ : *slot->codes));
  if (!on_host) {
    SCD_RETURN_IF_ERROR(backend_.Copy(stream, device_positions, positions));
    if (ReadInPlace(code.codec)) {
      const TensorView staged = slot->codes->View(numbers.dtype(), numbers.shape());
      std::memcpy(staged.data(), numbers.data(),
                  static_cast<std::size_t>(numbers.num_elements()) * DTypeBytes(numbers.dtype()));
      numbers = staged;
    }
  }
  const bool fits = numbers.dtype() == DType::kF32 || keep_bf16;
  codes_ = numbers;
  if (on_host && fits) return absl::OkStatus();
  const Buffer& memory = fits && numbers.dtype() == DType::kBF16 ? *device_halves_ : *device_codes_;
  const TensorView codes = memory.View(fits ? numbers.dtype() : DType::kF32, numbers.shape());
  codes_ = codes;
  return backend_.Copy(stream, codes, numbers);
}

}  // namespace scd
