// The decoder-only transformer that both daemons run: prefill and decode of any number of sequences over a
// paged KV cache, on any Backend. Immutable after Create; forward passes on different workspaces may run at
// the same time.
#ifndef SCD_COMMON_MODEL_TRANSFORMER_H_
#define SCD_COMMON_MODEL_TRANSFORMER_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cache/sequence.h"
#include "common/config/model_config.h"
#include "common/model/layer_tap.h"
#include "common/model/weight_store.h"
#include "common/model/weights_format.h"
#include "kernels/backend.h"
#include "kernels/kv_projection.h"
#include "kernels/rope_table.h"

namespace scd {

enum class LogitsWanted : std::uint8_t { kNone, kLast, kAll };

// Consecutive tokens of one sequence in a forward pass: a piece of a prefill, or one token of a decode step.
struct ForwardChunk {
  Sequence* sequence = nullptr;
  absl::Span<const std::int32_t> tokens;
  std::int64_t first_position = 0;
  LogitsWanted logits = LogitsWanted::kNone;
};

struct ForwardOptions {
  LayerTap* tap = nullptr;
  std::stop_token cancel = {};  // looked at before every layer: CANCELLED
  // Logits are left where they were computed: where that is not the host's memory, logits() is empty.
  bool leave_logits = false;
};

// Consecutive rows of one sequence's residual stream, for a pass over a part of the layers.
struct LayerChunk {
  Sequence* sequence = nullptr;
  ConstTensorView residual;  // [rows, hidden] f32, on the host or the device: what enters first_layer
  std::int64_t first_position = 0;
  std::int64_t first_layer = 0;
  std::int64_t last_layer = 0;  // included
  // [rows, hidden] f32, on the host or the device: what leaves last_layer. Empty: the last layer ends at its
  // K and V.
  TensorView residual_out = {};
};

struct TransformerOptions {
  std::int64_t max_positions = 0;  // longest sequence; 0: the model's own limit
  WeightsFormat weights = WeightsFormat::kF32;
};

class Transformer {
 public:
  // Activations of forward passes of at most max_rows rows, and the logits of the last one.
  class Workspace;

  // Loads and packs every weight. `backend` outlives this; `weights` only the call.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(const ModelConfig& config,
                                                             const WeightStore& weights, Backend& backend,
                                                             const TransformerOptions& options = {});
  ~Transformer();

  const ModelConfig& config() const;
  Backend& backend() const;
  std::int64_t max_positions() const;

  // How the matrices are kept: "dense", "int8", "q4_1, q8_0, adapter apart" ... Models of one digest whose
  // text differs give slightly different states, so it belongs in the keys of cached ones.
  const std::string& weights_description() const;
  // Memory of all matrices, as packed, and of the embedding.
  std::int64_t weight_bytes() const;
  // What a decode step reads of it: all but the embedding.
  std::int64_t step_bytes() const;
  // Device memory of a workspace, but for its stream's.
  std::int64_t workspace_bytes(std::int64_t max_rows, std::int64_t max_logit_rows) const;

  // max_logit_rows bounds the rows of logits that one pass may ask for.
  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_rows,
                                                             std::int64_t max_logit_rows) const;

  // Runs the chunks through all layers, writes their K and V into their sequences and marks them valid.
  // Checks before it touches anything: INVALID_ARGUMENT (ids, row counts), OUT_OF_RANGE (positions),
  // FAILED_PRECONDITION (a sequence's positions before first_position are not all valid). Where no chunk
  // wants logits the last layer ends at its K and V. Synchronous: results are complete when it returns.
  absl::Status Forward(Workspace& workspace, absl::Span<const ForwardChunk> chunks,
                       const ForwardOptions& options = {}) const;

  // Runs the chunk through its layers and writes their K and V into its sequence; marks nothing valid. That
  // the positions before first_position hold K and V in these layers is the caller's promise. Checks shapes,
  // layers and rows first: INVALID_ARGUMENT, OUT_OF_RANGE. Synchronous.
  absl::Status ForwardLayers(Workspace& workspace, const LayerChunk& chunk,
                             const ForwardOptions& options = {}) const;

  // The K/V product of one layer with this model's weights; valid while this lives.
  KvProjection kv_projection(std::int64_t layer) const;
  const RopeTable& rope() const;

 private:
  class Impl;
  explicit Transformer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Transformer::Workspace {
 public:
  virtual ~Workspace() = default;
  virtual std::int64_t max_rows() const = 0;
  virtual std::int64_t max_logit_rows() const = 0;
  // [rows that were asked for, vocabulary] f32 on the host, in chunk order; valid until the next pass.
  virtual ConstTensorView logits() const = 0;
  // The same where they were computed, on the backend's device.
  virtual ConstTensorView device_logits() const = 0;
  // The stream that passes run on.
  virtual Stream& stream() = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_TRANSFORMER_H_
