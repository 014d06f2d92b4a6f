#include "calibrate/trace_tap.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {

std::int64_t TraceShape::HiddenSlot(std::int64_t layer) const {
  const auto it = std::lower_bound(hidden_layers.begin(), hidden_layers.end(), layer);
  return it != hidden_layers.end() && *it == layer ? it - hidden_layers.begin() : -1;
}

TraceTap::TraceTap(Backend& backend, const TraceShape& shape, std::int64_t max_rows)
    : backend_(backend), shape_(shape), max_rows_(max_rows) {}

absl::StatusOr<std::unique_ptr<TraceTap>> TraceTap::Create(Backend& backend, const TraceShape& shape,
                                                           std::int64_t max_rows) {
  auto tap = absl::WrapUnique(new TraceTap(backend, shape, max_rows));
  const auto kv_bytes = static_cast<std::size_t>(shape.num_layers * max_rows * shape.d_kv) * sizeof(float);
  SCD_ASSIGN_OR_RETURN(tap->k_, backend.Allocate(MemoryKind::kStaging, kv_bytes));
  SCD_ASSIGN_OR_RETURN(tap->v_, backend.Allocate(MemoryKind::kStaging, kv_bytes));
  const auto slots = static_cast<std::int64_t>(shape.hidden_layers.size());
  if (slots > 0) {
    const auto bytes =
        static_cast<std::size_t>(slots * max_rows * shape.hidden) * DTypeBytes(shape.hidden_dtype);
    SCD_ASSIGN_OR_RETURN(tap->hidden_, backend.Allocate(MemoryKind::kStaging, bytes));
  }
  return tap;
}

TapKinds TraceTap::Wanted(std::int64_t layer) const {
  const TapKinds kv = TapKind::kKPreRope | TapKind::kV;
  return shape_.HiddenSlot(layer) >= 0 ? kv | TapKind::kAttentionInput : kv;
}

absl::Status TraceTap::OnLayer(const LayerView& view) {
  const std::int64_t rows = view.v.dim(0);
  if (rows > max_rows_)
    return absl::InternalError(absl::StrCat("a pass of ", rows, " rows, at most ", max_rows_));
  rows_ = rows;
  SCD_RETURN_IF_ERROR(backend_.Copy(*view.stream, KvView(*k_, view.layer), view.k_pre_rope));
  SCD_RETURN_IF_ERROR(backend_.Copy(*view.stream, KvView(*v_, view.layer), view.v));
  const std::int64_t slot = shape_.HiddenSlot(view.layer);
  if (slot < 0) return absl::OkStatus();
  return backend_.Copy(*view.stream, HiddenView(slot), view.attention_input);
}

TensorView TraceTap::KvView(const Buffer& buffer, std::int64_t layer) const {
  return buffer.View(DType::kF32, {shape_.num_layers * max_rows_, shape_.d_kv})
      .rows(layer * max_rows_, rows_);
}

TensorView TraceTap::HiddenView(std::int64_t slot) const {
  const auto slots = static_cast<std::int64_t>(shape_.hidden_layers.size());
  return hidden_->View(shape_.hidden_dtype, {slots * max_rows_, shape_.hidden}).rows(slot * max_rows_, rows_);
}

}  // namespace scd
