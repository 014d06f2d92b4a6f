// The consumer's side of translation: codes of one layer -> its own native K and V in its own KV pages.
// Reuse: B_hat = Z W_dec + b, then the consumer's RoPE on K. Patch: H_B_hat = g(Z), then the consumer's W_k,
// W_v (biases, k_norm) and its RoPE on K. Fused: [K V] from one code, then its RoPE on K. Raw K and V are
// written as they came: K that was sent before RoPE gets the consumer's, K that the producer roped gets none.
// Recomputed layers are the transformer's work, not the rebuilder's.
#ifndef SCD_COMMON_TRANSLATE_LAYER_REBUILDER_H_
#define SCD_COMMON_TRANSLATE_LAYER_REBUILDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bundle/bundle.h"
#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"
#include "kernels/backend.h"
#include "kernels/kv_projection.h"
#include "kernels/paged_kv.h"
#include "kernels/rope_table.h"

namespace scd {

// The pages of one layer of the sequence that is rebuilt.
using LayerPages = absl::FunctionRef<PagedKv(std::int64_t layer)>;

// Immutable; Rebuild may be called from several threads with different workspaces.
class LayerRebuilder {
 public:
  class Workspace;

  // Packs the decoders that `plan` uses. projections: one for each layer, of the consumer's model, which
  // outlives this, as does `rope` (the consumer's) and `backend`. The bundle may go away afterwards.
  static absl::StatusOr<std::unique_ptr<LayerRebuilder>> Create(const Bundle& bundle, const LayerPlan& plan,
                                                                absl::Span<const KvProjection> projections,
                                                                const RopeTable& rope, Backend& backend);
  ~LayerRebuilder();

  const LayerPlan& plan() const { return plan_; }
  // For slices of max_tokens, rounded up to whole granules.
  absl::StatusOr<std::unique_ptr<Workspace>> CreateWorkspace(std::int64_t max_tokens) const;

  // Rebuilds the rows of `code` (kK writes K, kV writes V, kH both, kKV both of every layer of its group) at
  // its positions into the pages of its layer or layers; more rows than the workspace's max_tokens are done
  // in slices. Queued on `stream`; the code may go away when it returns. Checks the code against the plan
  // first: INVALID_ARGUMENT; OUT_OF_RANGE for positions beyond `rope`; DATA_LOSS for an entropy coded payload
  // that no encoder wrote.
  absl::Status Rebuild(Workspace& workspace, Stream& stream, const LayerCode& code, LayerPages pages) const;
  // Of codes that hold one layer, into its pages.
  absl::Status Rebuild(Workspace& workspace, Stream& stream, const LayerCode& code,
                       const PagedKv& pages) const;

  // The same before RoPE and without pages, for fits and tests: k and v [tokens, d_kv] f32 on the device; for
  // kK only k is written, for kV only v (the other may be empty). Of codes that hold one layer.
  absl::Status Decode(Workspace& workspace, Stream& stream, const LayerCode& code, TensorView k_pre_rope,
                      TensorView v) const;

 private:
  class Impl;
  LayerRebuilder(const LayerPlan& plan, std::unique_ptr<Impl> impl);
  const LayerPlan plan_;
  std::unique_ptr<Impl> impl_;
};

class LayerRebuilder::Workspace {
 public:
  virtual ~Workspace() = default;
  virtual std::int64_t max_tokens() const = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_TRANSLATE_LAYER_REBUILDER_H_
