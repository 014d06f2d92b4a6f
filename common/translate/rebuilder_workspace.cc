#include "common/translate/rebuilder_workspace.h"

#include <cstring>
#include <numeric>
#include <utility>

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
  SCD_ASSIGN_OR_RETURN(codes_as_f32_, rows_of(MemoryKind::kDevice, widths_.most_columns, DType::kF32));
  if (backend_.device() == Device::kHost) {
    SCD_ASSIGN_OR_RETURN(host_positions_, rows_of(MemoryKind::kDevice, 1, DType::kI32));
  } else {
    for (Slot& slot : ring_) SCD_RETURN_IF_ERROR(AllocateSlot(slot));
    SCD_ASSIGN_OR_RETURN(copies_, backend_.CreateStream(StreamUse::kCopies));
  }
  SCD_ASSIGN_OR_RETURN(kv_, rows_of(MemoryKind::kDevice, 2 * widths_.d_kv, DType::kF32));
  if (widths_.inner > 0) {
    SCD_ASSIGN_OR_RETURN(inner_, rows_of(MemoryKind::kDevice, widths_.inner, DType::kF32));
  }
  SCD_ASSIGN_OR_RETURN(done_, backend_.CreateEvent());
  return absl::OkStatus();
}

absl::Status RebuilderWorkspace::AllocateSlot(Slot& slot) {
  const auto rows = static_cast<std::size_t>(max_tokens_);
  const std::size_t bytes =
      rows * static_cast<std::size_t>(widths_.most_columns) * DTypeBytes(StagingDType(widths_.codec));
  SCD_ASSIGN_OR_RETURN(slot.staged_codes, backend_.Allocate(MemoryKind::kStaging, bytes));
  SCD_ASSIGN_OR_RETURN(slot.codes, backend_.Allocate(MemoryKind::kDevice, bytes));
  SCD_ASSIGN_OR_RETURN(slot.staged_positions,
                       backend_.Allocate(MemoryKind::kStaging, rows * sizeof(std::int32_t)));
  SCD_ASSIGN_OR_RETURN(slot.positions, backend_.Allocate(MemoryKind::kDevice, rows * sizeof(std::int32_t)));
  SCD_ASSIGN_OR_RETURN(slot.copied, backend_.CreateEvent());
  SCD_ASSIGN_OR_RETURN(slot.used, backend_.CreateEvent());
  return absl::OkStatus();
}

absl::Status RebuilderWorkspace::Begin(Stream& stream) {
  return used_ ? backend_.Wait(stream, *done_) : absl::OkStatus();
}

absl::Status RebuilderWorkspace::End(Stream& stream) {
  used_ = true;
  SCD_RETURN_IF_ERROR(EndSlot(stream));
  return backend_.Record(*done_, stream);
}

absl::Status RebuilderWorkspace::EndSlot(Stream& stream) {
  if (slot_ == nullptr) return absl::OkStatus();
  return backend_.Record(*std::exchange(slot_, nullptr)->used, stream);
}

absl::StatusOr<RebuilderWorkspace::Slot*> RebuilderWorkspace::NextSlot(Stream& stream) {
  SCD_RETURN_IF_ERROR(EndSlot(stream));
  Slot& slot = ring_[std::exchange(next_slot_, (next_slot_ + 1) % ring_.size())];
  SCD_RETURN_IF_ERROR(backend_.Await(*slot.copied));
  SCD_RETURN_IF_ERROR(backend_.Wait(*copies_, *slot.used));
  return &slot;
}

void RebuilderWorkspace::FillPositions(const TensorView& positions, std::int64_t first) {
  auto* const begin = positions.as<std::int32_t>();
  std::iota(begin, begin + positions.num_elements(), static_cast<std::int32_t>(first));
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
  if (backend_.device() != Device::kHost) {
    return UploadThroughSlot(stream, code, entropy, begin, count, keep_bf16);
  }
  const TensorView positions = host_positions_->View(DType::kI32, Shape{count});
  FillPositions(positions, code.first_token + begin);
  positions_ = positions;
  SCD_ASSIGN_OR_RETURN(codes_, Numbers(code, entropy, begin, count, *codes_as_f32_));
  if (codes_.dtype() == DType::kF32 || keep_bf16) return absl::OkStatus();
  const TensorView as_f32 = codes_as_f32_->View(DType::kF32, codes_.shape());
  const ConstTensorView numbers = std::exchange(codes_, as_f32);
  return backend_.Copy(stream, as_f32, numbers);
}

absl::Status RebuilderWorkspace::UploadThroughSlot(Stream& stream, const LayerCode& code,
                                                   const EntropyCoder* entropy, std::int64_t begin,
                                                   std::int64_t count, bool keep_bf16) {
  SCD_ASSIGN_OR_RETURN(Slot * slot, NextSlot(stream));
  const TensorView staged_positions = slot->staged_positions->View(DType::kI32, Shape{count});
  FillPositions(staged_positions, code.first_token + begin);
  // Integers are unpacked where they go; what they take is less than the numbers.
  const bool packed = IsQuantized(code.codec);
  ConstTensorView numbers;
  if (packed) {
    numbers = ConstTensorView(code.payload.data() + PayloadBytes(code.codec, code.kind, begin, code.rank),
                              DType::kU8, Shape{PayloadBytes(code.codec, code.kind, count, code.rank)});
  } else {
    SCD_ASSIGN_OR_RETURN(numbers, Numbers(code, entropy, begin, count, *slot->staged_codes));
  }
  const TensorView staged = slot->staged_codes->View(numbers.dtype(), numbers.shape());
  if (staged.data() != numbers.data()) {
    std::memcpy(staged.data(), numbers.data(),
                static_cast<std::size_t>(numbers.num_elements()) * DTypeBytes(numbers.dtype()));
  }
  const TensorView positions = slot->positions->View(DType::kI32, Shape{count});
  const TensorView codes = slot->codes->View(numbers.dtype(), numbers.shape());
  SCD_RETURN_IF_ERROR(backend_.Copy(*copies_, positions, staged_positions));
  SCD_RETURN_IF_ERROR(backend_.Copy(*copies_, codes, staged));
  SCD_RETURN_IF_ERROR(backend_.Record(*slot->copied, *copies_));
  SCD_RETURN_IF_ERROR(backend_.Wait(stream, *slot->copied));
  slot_ = slot;
  positions_ = positions;
  codes_ = codes;
  if (numbers.dtype() == DType::kF32 || (keep_bf16 && !packed)) return absl::OkStatus();
  const TensorView as_f32 =
      codes_as_f32_->View(DType::kF32, packed ? Shape{count, code.rank} : numbers.shape());
  codes_ = as_f32;
  if (!packed) return backend_.Copy(stream, as_f32, codes);
  return backend_.UnpackCodes(stream, codes, IntegersOf(code.codec, code.kind, code.rank), 0, as_f32);
}

}  // namespace scd
