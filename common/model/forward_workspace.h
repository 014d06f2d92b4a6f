// The memory of forward passes: activations, indices and logits, allocated once.
#ifndef SCD_COMMON_MODEL_FORWARD_WORKSPACE_H_
#define SCD_COMMON_MODEL_FORWARD_WORKSPACE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/config/model_config.h"
#include "common/model/transformer.h"
#include "kernels/backend.h"

namespace scd {

// What the transformer's passes use of a model's sizes; workspaces of equal sizes are interchangeable.
struct WorkspaceSizes {
  std::int64_t max_rows = 0;
  std::int64_t max_logit_rows = 0;
  std::int64_t hidden = 0;
  std::int64_t d_q = 0;
  std::int64_t d_kv = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocabulary = 0;

  // Of the device's memory.
  std::int64_t device_bytes() const;

  friend bool operator==(const WorkspaceSizes&, const WorkspaceSizes&) = default;
};

class ForwardWorkspace final : public Transformer::Workspace {
 public:
  static absl::StatusOr<std::unique_ptr<ForwardWorkspace>> Create(Backend& backend,
                                                                  const WorkspaceSizes& sizes);

  std::int64_t max_rows() const override { return sizes_.max_rows; }
  std::int64_t max_logit_rows() const override { return sizes_.max_logit_rows; }
  ConstTensorView logits() const override { return logits_; }
  ConstTensorView device_logits() const override { return device_logits_; }
  Stream& stream() override { return *stream_; }

  const WorkspaceSizes& sizes() const { return sizes_; }

  // Activations of all rows, f32.
  TensorView residual(std::int64_t rows) const { return residual_->View(DType::kF32, {rows, sizes_.hidden}); }
  TensorView normed(std::int64_t rows) const { return normed_->View(DType::kF32, {rows, sizes_.hidden}); }
  // Q, K and V side by side, as one product makes them.
  TensorView qkv(std::int64_t rows) const {
    return qkv_->View(DType::kF32, {rows, sizes_.d_q + 2 * sizes_.d_kv});
  }
  TensorView q(std::int64_t rows) const { return qkv(rows).columns(0, sizes_.d_q); }
  TensorView q_and_k(std::int64_t rows) const { return qkv(rows).columns(0, sizes_.d_q + sizes_.d_kv); }
  TensorView k(std::int64_t rows) const { return qkv(rows).columns(sizes_.d_q, sizes_.d_kv); }
  TensorView v(std::int64_t rows) const { return qkv(rows).columns(sizes_.d_q + sizes_.d_kv, sizes_.d_kv); }
  TensorView attended(std::int64_t rows) const { return attended_->View(DType::kF32, {rows, sizes_.d_q}); }
  // The same of the MLP's two.
  TensorView gate_up(std::int64_t rows) const {
    return gate_up_->View(DType::kF32, {rows, 2 * sizes_.intermediate});
  }
  TensorView gate(std::int64_t rows) const { return gate_up(rows).columns(0, sizes_.intermediate); }
  TensorView up(std::int64_t rows) const {
    return gate_up(rows).columns(sizes_.intermediate, sizes_.intermediate);
  }

  // The same of the rows whose logits are wanted, in the last layer.
  TensorView kept_residual(std::int64_t rows) const {
    return kept_residual_->View(DType::kF32, {rows, sizes_.hidden});
  }
  TensorView kept_normed(std::int64_t rows) const {
    return kept_normed_->View(DType::kF32, {rows, sizes_.hidden});
  }

  // Ids and positions [max_rows] i32: where the host writes them, and where ops read them after their upload.
  absl::Span<std::int32_t> host_ids() { return HostIndices(0); }
  absl::Span<std::int32_t> host_positions() { return HostIndices(1); }
  absl::Status UploadIds(Backend& backend, std::int64_t rows) { return Upload(backend, 0, rows); }
  absl::Status UploadPositions(Backend& backend, std::int64_t rows) { return Upload(backend, 1, rows); }
  ConstTensorView ids(std::int64_t rows) const { return DeviceIndices(0, rows); }
  ConstTensorView positions(std::int64_t rows) const { return DeviceIndices(1, rows); }
  TensorView kept_positions(std::int64_t rows) const { return DeviceIndices(2, rows); }

  // [rows, vocabulary] where the head product writes, then brought to the host as logits() unless they are
  // left there.
  TensorView head_output(std::int64_t rows) const {
    return head_output_->View(DType::kF32, {rows, sizes_.vocabulary});
  }
  absl::Status PublishLogits(Backend& backend, std::int64_t rows, bool leave);

 private:
  ForwardWorkspace(const WorkspaceSizes& sizes, std::unique_ptr<Stream> stream);
  absl::Span<std::int32_t> HostIndices(std::int64_t list);
  absl::Status Upload(Backend& backend, std::int64_t list, std::int64_t rows);
  TensorView DeviceIndices(std::int64_t list, std::int64_t rows) const;

  const WorkspaceSizes sizes_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> residual_;
  std::unique_ptr<Buffer> normed_;
  std::unique_ptr<Buffer> qkv_;
  std::unique_ptr<Buffer> attended_;
  std::unique_ptr<Buffer> gate_up_;
  std::unique_ptr<Buffer> kept_residual_;
  std::unique_ptr<Buffer> kept_normed_;
  std::unique_ptr<Buffer> host_indices_;    // 2 lists of max_rows i32: ids, positions
  std::unique_ptr<Buffer> device_indices_;  // 3 lists: ids, positions, positions of kept rows
  std::unique_ptr<Buffer> head_output_;
  std::unique_ptr<Buffer> host_logits_;  // absent where the device's memory is the host's
  ConstTensorView logits_;
  ConstTensorView device_logits_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_FORWARD_WORKSPACE_H_
