// The producer's side of translation: rows of K, V, the attention input or the residual stream of one layer
// -> codes. Z = A W_enc + b (paper: Reuse encoder, ridge; Patch encoder, reduced-rank ridge). Means are
// folded into b. The code of a group of Fused layers is the sum of its layers' shares. Raw layers and
// residuals are sent as they are, in the plan's codec.
#ifndef SCD_COMMON_TRANSLATE_LAYER_ENCODER_H_
#define SCD_COMMON_TRANSLATE_LAYER_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"
#include "kernels/backend.h"
#include "kernels/rope_table.h"

namespace scd {

// A code whose numbers are on their way to the host, in one of its workspace's places; the place is free
// again after Finish, or when this goes, which may be before Finish. Goes before its workspace and encoder.
class PendingCode {
 public:
  virtual ~PendingCode() = default;
  // Whether Finish would not wait for the device.
  virtual absl::StatusOr<bool> Ready() const = 0;
  // Waits for the numbers alone, not for what was queued after them, and packs them on the calling thread.
  // Once.
  virtual absl::StatusOr<LayerCode> Finish() = 0;
};

// Immutable; may be used from several threads with different workspaces. A workspace and what is pending in
// it belong to one thread at a time.
class LayerEncoder {
 public:
  // Device and staging memory for codes of at most max_tokens rows.
  class Workspace;

  // Packs the encoders that `plan` uses. The bundle may go away afterwards; `rope` (the producer's: raw K may
  // be sent after RoPE) and `backend` outlive this.
  static absl::StatusOr<std::unique_ptr<LayerEncoder>> Create(const Bundle& bundle, const LayerPlan& plan,
                                                              const RopeTable& rope, Backend& backend);
  ~LayerEncoder();

  const LayerPlan& plan() const { return plan_; }
  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_tokens) const;

  // rows [tokens, hidden]: the attention input of a Fused layer that is not the last of its group, f32 on the
  // device, of positions first_token .. first_token + tokens - 1. They are copied into the workspace for the
  // codes of the group's last layer, whose rows they must cover; Keep of the same layer replaces them.
  // INVALID_ARGUMENT for any other layer.
  absl::Status Keep(Workspace& workspace, Stream& stream, std::int64_t layer, ConstTensorView rows,
                    std::int64_t first_token) const;

  // rows [tokens, d_kv] (kK before RoPE, kV) or [tokens, hidden] (kH, kResidual, kKV), f32 on the backend's
  // device, of positions first_token .. first_token + tokens - 1. Queued on `stream`, which `rows` may change
  // on afterwards; waits for nothing. INVALID_ARGUMENT for a kind that the plan does not send for this layer;
  // OUT_OF_RANGE for positions beyond `rope` where K is roped; FAILED_PRECONDITION while max_pending() codes
  // of the workspace are pending.
  absl::StatusOr<std::unique_ptr<PendingCode>> Begin(Workspace& workspace, Stream& stream, std::int64_t layer,
                                                     CodeKind kind, ConstTensorView rows,
                                                     std::int64_t first_token) const;

  // Begin and Finish.
  absl::StatusOr<LayerCode> Encode(Workspace& workspace, Stream& stream, std::int64_t layer, CodeKind kind,
                                   ConstTensorView rows, std::int64_t first_token) const;

 private:
  class Impl;
  LayerEncoder(const LayerPlan& plan, std::unique_ptr<Impl> impl);
  const LayerPlan plan_;
  std::unique_ptr<Impl> impl_;
};

class LayerEncoder::Workspace {
 public:
  virtual ~Workspace() = default;
  virtual std::int64_t max_tokens() const = 0;
  // How many codes may be pending at once: enough for two layers, or one where a code is ready at once.
  virtual std::size_t max_pending() const = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_LAYER_ENCODER_H_
