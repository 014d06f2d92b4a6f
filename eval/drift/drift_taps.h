// What the drift measurement hangs into forward passes: the producer's layers are encoded for every plan, the
// consumer's native layers are compared with what the codes rebuild, and the residual stream is kept.
#ifndef SCD_EVAL_DRIFT_DRIFT_TAPS_H_
#define SCD_EVAL_DRIFT_DRIFT_TAPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/cache/sequence.h"
#include "common/config/layer_plan.h"
#include "common/model/layer_tap.h"
#include "common/model/transformer.h"
#include "common/translate/layer_encoder.h"
#include "common/translate/layer_rebuilder.h"
#include "common/wire/layer_code.h"
#include "eval/drift/drift_sums.h"

namespace scd {

// Copies f32 rows to the host, row after row, and waits for them.
absl::Status CopyToHost(Backend& backend, Stream& stream, ConstTensorView rows, std::vector<float>& out);

// One plan on its way: encoder, the codes of the pass that runs, rebuilder, and what it is rebuilt into.
struct PlanRun {
  static absl::StatusOr<PlanRun> Create(const Transformer& producer, const Transformer& consumer,
                                        const Bundle& bundle, const LayerPlan& plan, std::int64_t max_rows);

  LayerPlan plan;
  std::unique_ptr<LayerEncoder> encoder;
  std::unique_ptr<LayerEncoder::Workspace> encoder_workspace;
  std::unique_ptr<LayerRebuilder> rebuilder;
  std::unique_ptr<LayerRebuilder::Workspace> rebuilder_workspace;
  std::unique_ptr<Buffer> decoded_k;  // [max_rows, d_kv] f32 on the device
  std::unique_ptr<Buffer> decoded_v;
  std::vector<std::vector<LayerCode>> codes;  // by layer
  std::unique_ptr<Sequence> rebuilt;
  DriftSums sums;
};

// The rows of a pass that are transferred positions.
struct TransferredRows {
  std::int64_t first_row = 0;
  std::int64_t count = 0;
  std::int64_t first_position = 0;
};

// On the producer's pass: fills `codes` of every run.
class CodingTap final : public LayerTap {
 public:
  CodingTap(std::vector<PlanRun>& runs, const TransferredRows& rows);
  TapKinds Wanted(std::int64_t layer) const override;
  absl::Status OnLayer(const LayerView& view) override;

 private:
  std::vector<PlanRun>& runs_;
  const TransferredRows rows_;
};

// On the consumer's native pass over the same tokens: decodes the codes of every run, adds their errors to
// its sums and rebuilds them into its sequence.
class ComparingTap final : public LayerTap {
 public:
  ComparingTap(Backend& backend, std::vector<PlanRun>& runs, const TransferredRows& rows);
  TapKinds Wanted(std::int64_t layer) const override;
  absl::Status OnLayer(const LayerView& view) override;

 private:
  Backend& backend_;
  std::vector<PlanRun>& runs_;
  const TransferredRows rows_;
  std::vector<float> native_k_, native_v_, decoded_;
};

// Keeps the residual stream that enters each layer, [rows, hidden] on the host.
class ResidualTap final : public LayerTap {
 public:
  explicit ResidualTap(Backend& backend) : backend_(backend) {}
  TapKinds Wanted(std::int64_t layer) const override;
  absl::Status OnLayer(const LayerView& view) override;

  std::vector<std::vector<float>> entering;  // in layer order

 private:
  Backend& backend_;
};

}  // namespace scd

#endif  // SCD_EVAL_DRIFT_DRIFT_TAPS_H_
