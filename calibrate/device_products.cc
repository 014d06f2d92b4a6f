#include "calibrate/device_products.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kPanelBytes = std::size_t{16} << 20;

std::size_t Bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.num_elements()) * sizeof(float);
}

template <typename View>
struct TwoRows {
  View a;
  View b;
};

// a, then b.
TwoRows<TensorView> Split(const Buffer& buffer, const Shape& a, const Shape& b) {
  return {buffer.View(DType::kF32, a),
          TensorView(static_cast<std::byte*>(buffer.data()) + Bytes(a), DType::kF32, b, buffer.device())};
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceProducts>> DeviceProducts::Create(Backend& backend) {
  auto products = absl::WrapUnique(new DeviceProducts(backend));
  SCD_ASSIGN_OR_RETURN(products->stream_, backend.CreateStream());
  SCD_ASSIGN_OR_RETURN(products->copies_, backend.CreateStream(StreamUse::kCopies));
  for (Slot& slot : products->slots_) {
    SCD_ASSIGN_OR_RETURN(slot.sent, backend.CreateEvent());
    SCD_ASSIGN_OR_RETURN(slot.used, backend.CreateEvent());
  }
  return products;
}

DeviceProducts::~DeviceProducts() {
  for (const auto* stream : {&copies_, &stream_}) {
    if (*stream != nullptr) backend_.Synchronize(**stream).IgnoreError();
  }
}

absl::Status DeviceProducts::Grow(MemoryKind kind, std::size_t bytes, std::unique_ptr<Buffer>& buffer) {
  if (buffer != nullptr && buffer->size_bytes() >= bytes) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(backend_.Synchronize(*copies_));
  SCD_RETURN_IF_ERROR(backend_.Synchronize(*stream_));
  buffer.reset();  // never both at once
  SCD_ASSIGN_OR_RETURN(buffer, backend_.Allocate(kind, bytes));
  return absl::OkStatus();
}

absl::Status DeviceProducts::Gemm(ConstTensorView a, ConstTensorView b, TensorView c,
                                  const GemmOptions& options) {
  SCD_RETURN_IF_ERROR(Grow(MemoryKind::kDevice, Bytes(a.shape()), a_));
  SCD_RETURN_IF_ERROR(Grow(MemoryKind::kDevice, Bytes(b.shape()), b_));
  SCD_RETURN_IF_ERROR(Grow(MemoryKind::kDevice, Bytes(c.shape()), c_));
  const TensorView device_a = a_->View(DType::kF32, a.shape());
  const TensorView device_b = b_->View(DType::kF32, b.shape());
  const TensorView device_c = c_->View(DType::kF32, c.shape());
  SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, device_a, a));
  SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, device_b, b));
  if (options.beta != 0.0f) SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, device_c, c));
  SCD_RETURN_IF_ERROR(backend_.Gemm(*stream_, device_a, device_b, device_c, options));
  SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, c, device_c));
  return backend_.Synchronize(*stream_);
}

absl::StatusOr<DeviceProducts::HostRows> DeviceProducts::NextRows(std::int64_t rows, std::int64_t dim_a,
                                                                  std::int64_t dim_b) {
  turn_ = 1 - turn_;
  Slot& slot = slots_[turn_];
  slot.a = Shape{rows, dim_a};
  slot.b = Shape{rows, dim_b};
  SCD_RETURN_IF_ERROR(Grow(MemoryKind::kStaging, Bytes(slot.a) + Bytes(slot.b), slot.host));
  SCD_RETURN_IF_ERROR(Grow(MemoryKind::kDevice, Bytes(slot.a) + Bytes(slot.b), slot.device));
  SCD_RETURN_IF_ERROR(backend_.Await(*slot.sent));
  const auto [a, b] = Split(*slot.host, slot.a, slot.b);
  return HostRows{a, b};
}

absl::StatusOr<DeviceProducts::DeviceRows> DeviceProducts::SendRows() {
  Slot& slot = slots_[turn_];
  const auto from = Split(*slot.host, slot.a, slot.b);
  const auto to = Split(*slot.device, slot.a, slot.b);
  SCD_RETURN_IF_ERROR(backend_.Wait(*copies_, *slot.used));
  SCD_RETURN_IF_ERROR(backend_.Copy(*copies_, to.a, from.a));
  SCD_RETURN_IF_ERROR(backend_.Copy(*copies_, to.b, from.b));
  SCD_RETURN_IF_ERROR(backend_.Record(*slot.sent, *copies_));
  SCD_RETURN_IF_ERROR(backend_.Wait(*stream_, *slot.sent));
  return DeviceRows{to.a, to.b};
}

absl::Status DeviceProducts::RowsUsed() {
  return backend_.Record(*slots_[turn_].used, *stream_);
}

absl::Status DeviceProducts::AddTo(ConstTensorView matrix, double* sum) {
  const std::int64_t width = matrix.dim(1);
  const auto fitting =
      static_cast<std::int64_t>(kPanelBytes / (static_cast<std::size_t>(width) * sizeof(float)));
  const std::int64_t height = std::clamp<std::int64_t>(fitting, 1, matrix.dim(0));
  SCD_RETURN_IF_ERROR(Grow(MemoryKind::kStaging, Bytes(Shape{height, width}), panel_));
  for (std::int64_t row = 0; row < matrix.dim(0); row += height) {
    const std::int64_t count = std::min(height, matrix.dim(0) - row);
    const TensorView panel = panel_->View(DType::kF32, {count, width});
    SCD_RETURN_IF_ERROR(backend_.Copy(*stream_, panel, matrix.rows(row, count)));
    SCD_RETURN_IF_ERROR(backend_.Synchronize(*stream_));
    const float* values = panel.as<float>();
    for (std::int64_t i = 0; i < panel.num_elements(); ++i) sum[i] += static_cast<double>(values[i]);
    sum += panel.num_elements();
  }
  return absl::OkStatus();
}

}  // namespace scd
