// A bundle: the frozen translators of one model pair, as fitted by scd-calibrate. A folder with manifest.json
// (versioned, human-readable) and tensors.safetensors. Layout: docs/formats.md.
//
// Open checks everything: version, every field, every tensor's name, shape and dtype, the tensors' digest.
// Immutable after that and thread-safe.
#ifndef SCD_COMMON_BUNDLE_BUNDLE_H_
#define SCD_COMMON_BUNDLE_BUNDLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bundle/manifest.h"
#include "common/config/entropy_tables.h"
#include "common/config/layer_plan.h"
#include "common/config/model_config.h"
#include "common/io/digest.h"
#include "common/io/safetensors.h"
#include "kernels/tensor_view.h"

namespace scd {

// Affine maps of one layer and kind of Reuse, f32 on the host; rows/columns ordered by energy, so the first r
// of them are the translator of rank r:  Z = A encoder^T + encoder_bias;  B_hat = Z decoder^T + decoder_bias.
// (decoder_bias is the mean of B, and Z is centred, so truncation needs no other bias.)
struct ReuseTranslator {
  ConstTensorView encoder;       // [rank, d_kv]
  ConstTensorView encoder_bias;  // [rank]
  ConstTensorView decoder;       // [d_kv, rank]
  ConstTensorView decoder_bias;  // [d_kv]
};

// Patch of one layer at one rank:  Z = H_A encoder^T + encoder_bias;
// H_B_hat = Z decoder^T + decoder_bias + mlp_out silu(Z mlp_in^T + mlp_in_bias) + mlp_out_bias.
struct PatchTranslator {
  ConstTensorView encoder;       // [rank, hidden]
  ConstTensorView encoder_bias;  // [rank]
  ConstTensorView decoder;       // [hidden, rank]
  ConstTensorView decoder_bias;  // [hidden]
  ConstTensorView mlp_in;        // [mlp_width, rank]
  ConstTensorView mlp_in_bias;   // [mlp_width]
  ConstTensorView mlp_out;       // [hidden, mlp_width]
  ConstTensorView mlp_out_bias;  // [hidden]
};

// One layer's part in the code for K and V of its group of layers, at the fitted rank:
// Z = sum over the group of H_A encoder^T, + encoder_bias;
// [K V] = Z decoder^T + decoder_bias, K before RoPE and after any k_norm.
struct FusedTranslator {
  ConstTensorView encoder;       // [rank, hidden]
  ConstTensorView encoder_bias;  // [rank], the same for every layer of the group
  ConstTensorView decoder;       // [2 d_kv, rank], rows of K before those of V
  ConstTensorView decoder_bias;  // [2 d_kv]
};

class Bundle {
 public:
  // NOT_FOUND, INVALID_ARGUMENT (a field or tensor), DATA_LOSS (a digest differs), UNIMPLEMENTED (newer
  // version), FAILED_PRECONDITION (an older one); each with the path.
  static absl::StatusOr<std::unique_ptr<Bundle>> Open(const std::string& folder);

  // "scd.bundle.tensors.v1" over the bytes of a tensors.safetensors.
  static Digest TensorsDigest(absl::Span<const std::byte> file);

  const std::string& folder() const { return folder_; }
  const BundleManifest& manifest() const { return manifest_; }
  // "scd.bundle.v1" over the bytes of manifest.json (which holds the tensors' digest).
  const Digest& digest() const { return digest_; }

  // FAILED_PRECONDITION saying which digest was expected and which was given.
  absl::Status CheckProducer(const Digest& model, const Digest& tokenizer) const;
  absl::Status CheckConsumer(const Digest& model, const Digest& tokenizer) const;

  // Fills what `request` leaves open from the bundle and checks the rest: what its form has no use for must
  // be absent. INVALID_ARGUMENT naming the field
  // ("plan.rank_k: 256 is over this bundle's largest, 192") and the largest value or the layers that it can.
  absl::StatusOr<LayerPlan> ResolvePlan(const PlanRequest& request) const;
  // The same checks for a plan that came over the wire: accepts what ResolvePlan can make, and codes whose
  // ranks differ from layer to layer.
  absl::Status CheckPlan(const LayerPlan& plan) const;

  // Sliced to `rank` (at most the fitted one). kind: kK or kV.
  absl::StatusOr<ReuseTranslator> Reuse(std::int64_t layer, CodeKind kind, std::int64_t rank) const;
  // NOT_FOUND for a layer that is no candidate or a rank that was not fitted.
  absl::StatusOr<PatchTranslator> Patch(std::int64_t layer, std::int64_t rank) const;
  // NOT_FOUND where the bundle has none.
  absl::StatusOr<FusedTranslator> Fused(std::int64_t layer) const;
  // The tables of the first `rank` columns of a code that the layer may send. NOT_FOUND where there are none.
  absl::StatusOr<EntropyTables> Entropy(std::int64_t layer, CodeKind kind, std::int64_t rank,
                                        std::int64_t rate_point) const;

 private:
  Bundle(std::string folder, BundleManifest manifest, Digest digest,
         std::unique_ptr<SafetensorsFile> tensors);

  const std::string folder_;
  const BundleManifest manifest_;
  const Digest digest_;
  const std::unique_ptr<SafetensorsFile> tensors_;
};

}  // namespace scd

#endif  // SCD_COMMON_BUNDLE_BUNDLE_H_
