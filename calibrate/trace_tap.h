// Collects what the fits need of one model's forward pass, on the host.
#ifndef SCD_CALIBRATE_TRACE_TAP_H_
#define SCD_CALIBRATE_TRACE_TAP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/layer_tap.h"
#include "kernels/backend.h"
#include "kernels/tensor_view.h"

namespace scd {

// Sizes that both models of a pair share, and which hidden rows are kept.
struct TraceShape {
  std::int64_t num_layers = 0;
  std::int64_t d_kv = 0;
  std::int64_t hidden = 0;
  std::vector<std::int64_t> hidden_layers;  // layers whose attention input is kept, ascending
  DType hidden_dtype = DType::kF16;         // in what: kF16 or kF32

  // Index in hidden_layers, or -1.
  std::int64_t HiddenSlot(std::int64_t layer) const;
};

class TraceTap final : public LayerTap {
 public:
  // For passes of at most max_rows rows. `backend` (the model's) outlives this.
  static absl::StatusOr<std::unique_ptr<TraceTap>> Create(Backend& backend, const TraceShape& shape,
                                                          std::int64_t max_rows);

  TapKinds Wanted(std::int64_t layer) const override;
  absl::Status OnLayer(const LayerView& view) override;

  // Of the last pass, once its stream is synchronised; on the host.
  ConstTensorView k(std::int64_t layer) const { return KvView(*k_, layer); }  // [rows, d_kv] f32, before RoPE
  ConstTensorView v(std::int64_t layer) const { return KvView(*v_, layer); }  // [rows, d_kv] f32
  ConstTensorView hidden(std::int64_t slot) const {
    return HiddenView(slot);
  }  // [rows, hidden] of hidden_dtype

 private:
  TraceTap(Backend& backend, const TraceShape& shape, std::int64_t max_rows);
  TensorView KvView(const Buffer& buffer, std::int64_t layer) const;
  TensorView HiddenView(std::int64_t slot) const;

  Backend& backend_;
  const TraceShape shape_;
  const std::int64_t max_rows_;
  std::int64_t rows_ = 0;
  std::unique_ptr<Buffer> k_;       // [layers, max_rows, d_kv] f32
  std::unique_ptr<Buffer> v_;       // [layers, max_rows, d_kv] f32
  std::unique_ptr<Buffer> hidden_;  // [slots, max_rows, hidden] of hidden_dtype
};

}  // namespace scd

#endif  // SCD_CALIBRATE_TRACE_TAP_H_
