// One pass of the transformer over a batch of checked chunks: tokens through all layers, or rows of the
// residual stream through some.
#ifndef SCD_COMMON_MODEL_FORWARD_PASS_H_
#define SCD_COMMON_MODEL_FORWARD_PASS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/config/model_config.h"
#include "common/model/forward_workspace.h"
#include "common/model/model_weights.h"
#include "common/model/transformer.h"
#include "kernels/backend.h"

namespace scd {

// The K/V product of one layer.
KvProjection MakeKvProjection(const ModelConfig& config, const LayerWeights& weights);

// Wanted logits rows of a chunk: its last ones.
std::int64_t NumLogitRows(const ForwardChunk& chunk);

class ForwardPass {
 public:
  // All outlive this.
  ForwardPass(const ModelConfig& config, const ModelWeights& weights, const RopeTable& rope, Backend& backend,
              ForwardWorkspace& workspace, const ForwardOptions& options);

  // One of the two, once. The chunks fit the workspace, the model and their sequences. They queue everything
  // on the workspace's stream; the caller synchronises, also after an error.
  absl::Status Run(absl::Span<const ForwardChunk> chunks);
  absl::Status RunLayers(const LayerChunk& chunk);

 private:
  void AddRows(const Sequence* sequence, std::int64_t count, std::int64_t first_position);
  absl::Status PlaceRows();
  absl::Status Embed(absl::Span<const ForwardChunk> chunks);
  absl::Status Continue(std::int64_t layer) const;
  absl::Status RunLayer(std::int64_t layer);
  // K and V of all rows into the pages; with_q: Q too, by the same product.
  absl::Status MakeKv(std::int64_t layer, bool with_q);
  absl::Status WriteKv(std::int64_t layer);
  // Q of the rows that still take part, before RoPE.
  absl::Status MakeQ(const LayerWeights& w);
  absl::Status ShowTap(std::int64_t layer);
  absl::Status KeepLogitRows(absl::Span<const ForwardChunk> chunks);
  TensorView ByHead(const TensorView& rows) const;
  absl::Status AttendAndMlp(std::int64_t layer);
  absl::Status Attend(std::int64_t layer, const LayerWeights& w);
  absl::Status Mlp(const LayerWeights& w);
  absl::Status Head();

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const RopeTable& rope_;
  Backend& backend_;
  ForwardWorkspace& workspace_;
  Stream& stream_;
  const ForwardOptions& options_;
  std::int64_t num_logit_rows_ = 0;

  // The rows that still take part: all of them, in the last layer only those whose logits are wanted.
  std::int64_t rows_ = 0;
  TensorView residual_;                       // [rows_, hidden] f32
  TensorView normed_;                         // [rows_, hidden] f32
  ConstTensorView positions_;                 // [rows_] i32
  std::vector<AttentionSequence> sequences_;  // of the chunks that have rows
  std::vector<const Sequence*> owners_;       // whose pages each of sequences_ attends to
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_FORWARD_PASS_H_
