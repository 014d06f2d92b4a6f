#include "common/model/forward_workspace.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 20;

absl::Status Allocate(Backend& backend, MemoryKind kind, std::int64_t rows, std::int64_t width,
                      std::unique_ptr<Buffer>& buffer) {
  SCD_ASSIGN_OR_RETURN(buffer,
                       backend.Allocate(kind, static_cast<std::size_t>(rows * width) * sizeof(float)));
  return absl::OkStatus();
}

}  // namespace

std::int64_t WorkspaceSizes::device_bytes() const {
  const std::int64_t of_row = 2 * hidden + 2 * d_q + 2 * d_kv + 2 * intermediate + 3;
  return static_cast<std::int64_t>(sizeof(float)) *
         (max_rows * of_row + max_logit_rows * (2 * hidden + vocabulary));
}

ForwardWorkspace::ForwardWorkspace(const WorkspaceSizes& sizes, std::unique_ptr<Stream> stream)
    : sizes_(sizes), stream_(std::move(stream)) {}

absl::StatusOr<std::unique_ptr<ForwardWorkspace>> ForwardWorkspace::Create(Backend& backend,
                                                                           const WorkspaceSizes& sizes) {
  if (sizes.max_rows < 1 || sizes.max_rows > kMaxRows || sizes.max_logit_rows < 0 ||
      sizes.max_logit_rows > sizes.max_rows) {
    return absl::InvalidArgumentError(absl::StrCat("workspace: max_rows ", sizes.max_rows,
                                                   " and max_logit_rows ", sizes.max_logit_rows,
                                                   ", expected 0 <= max_logit_rows <= max_rows"
                                                   " and 1 <= max_rows <= ",
                                                   kMaxRows));
  }
  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, backend.CreateStream());
  auto w = absl::WrapUnique(new ForwardWorkspace(sizes, std::move(stream)));
  const auto device = [&](std::int64_t rows, std::int64_t width, std::unique_ptr<Buffer>& buffer) {
    return Allocate(backend, MemoryKind::kDevice, rows, width, buffer);
  };
  SCD_RETURN_IF_ERROR(device(sizes.max_rows, sizes.hidden, w->residual_));
  SCD_RETURN_IF_ERROR(device(sizes.max_rows, sizes.hidden, w->normed_));
  SCD_RETURN_IF_ERROR(device(sizes.max_rows, sizes.d_q + 2 * sizes.d_kv, w->qkv_));
  SCD_RETURN_IF_ERROR(device(sizes.max_rows, sizes.d_q, w->attended_));
  SCD_RETURN_IF_ERROR(device(sizes.max_rows, 2 * sizes.intermediate, w->gate_up_));
  SCD_RETURN_IF_ERROR(device(sizes.max_logit_rows, sizes.hidden, w->kept_residual_));
  SCD_RETURN_IF_ERROR(device(sizes.max_logit_rows, sizes.hidden, w->kept_normed_));
  SCD_RETURN_IF_ERROR(device(sizes.max_rows, 3, w->device_indices_));
  SCD_RETURN_IF_ERROR(device(sizes.max_logit_rows, sizes.vocabulary, w->head_output_));
  SCD_RETURN_IF_ERROR(Allocate(backend, MemoryKind::kStaging, sizes.max_rows, 2, w->host_indices_));
  if (w->head_output_->device() != Device::kHost) {
    SCD_RETURN_IF_ERROR(
        Allocate(backend, MemoryKind::kStaging, sizes.max_logit_rows, sizes.vocabulary, w->host_logits_));
  }
  return w;
}

absl::Span<std::int32_t> ForwardWorkspace::HostIndices(std::int64_t list) {
  return {static_cast<std::int32_t*>(host_indices_->data()) + list * sizes_.max_rows,
          static_cast<std::size_t>(sizes_.max_rows)};
}

TensorView ForwardWorkspace::DeviceIndices(std::int64_t list, std::int64_t rows) const {
  return TensorView(static_cast<std::int32_t*>(device_indices_->data()) + list * sizes_.max_rows, DType::kI32,
                    {rows}, device_indices_->device());
}

absl::Status ForwardWorkspace::Upload(Backend& backend, std::int64_t list, std::int64_t rows) {
  const ConstTensorView host(HostIndices(list).data(), DType::kI32, {rows});
  return backend.Copy(*stream_, DeviceIndices(list, rows), host);
}

absl::Status ForwardWorkspace::PublishLogits(Backend& backend, std::int64_t rows, bool leave) {
  const TensorView computed = head_output(rows);
  device_logits_ = computed;
  logits_ = host_logits_ == nullptr ? ConstTensorView(computed) : ConstTensorView();
  if (host_logits_ == nullptr || leave) return absl::OkStatus();
  const TensorView host = host_logits_->View(DType::kF32, {rows, sizes_.vocabulary});
  SCD_RETURN_IF_ERROR(backend.Copy(*stream_, host, computed));
  logits_ = host;
  return absl::OkStatus();
}

}  // namespace scd
