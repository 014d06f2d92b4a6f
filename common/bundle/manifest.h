// manifest.json of a bundle, parsed: what was fitted, for which models, on what, and how well it does.
#ifndef SCD_COMMON_BUNDLE_MANIFEST_H_
#define SCD_COMMON_BUNDLE_MANIFEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/config/layer_plan.h"
#include "common/io/digest.h"

namespace scd {

inline constexpr std::int64_t kBundleVersion = 4;

// Bounds of what a manifest may say; far above any model, they keep a hostile one from asking for absurd
// work.
inline constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;
inline constexpr std::int64_t kMaxBundleLayers = 1024;
inline constexpr std::int64_t kMaxBundleWidth = 1 << 18;  // hidden size, d_kv, MLP width
inline constexpr std::int64_t kMaxBundleRanksH = 16;
inline constexpr std::int64_t kMaxSelectiveGroups = 4096;
inline constexpr std::int64_t kMaxRatePoints = 32;
inline constexpr std::int64_t kMaxNativePositions = 1 << 20;  // native_head, native_tail

// One side of the pair. Shapes are those of CheckTranslatable.
struct BundleModel {
  std::string description;
  Digest digest;
  Digest tokenizer_digest;
};

// Relative errors |X_hat - X| / |X - mean| of held-out rows at the fitted ranks.
struct LayerErrors {
  double k = 0;
  double v = 0;
  double h = 0;   // 0 where the layer is no Patch candidate
  double kv = 0;  // of K and V together, in units of their spread; 0 where nothing was fused
};

// Translators of one code for K and V of each group of consecutive layers.
struct FusedShape {
  std::int64_t rank = 0;   // columns of a group's code; 0: the bundle has none
  std::int64_t group = 1;  // layers of a group, from layer 0 on; the last group may have fewer

  friend bool operator==(const FusedShape&, const FusedShape&) = default;
};

// A distortion that the entropy codec has tables for, and what it makes of held-out prefixes: Fused layers
// where the bundle has them, else the default plan of Reuse and Patch.
struct RatePoint {
  double distortion = 0;       // mean square error of a column that is sent, in units of the spread of K or V
  double bytes_per_token = 0;  // of codes
  double kl = 0;               // KL(oracle || this), nats

  friend bool operator==(const RatePoint&, const RatePoint&) = default;
};

// One step of the choice of Patch layers: the set S_k and what it gains.
struct PatchChoiceStep {
  std::int64_t layer = 0;     // added in this step
  double kl = 0;              // held-out KL(oracle || SCD) with S_k patched, nats
  double gain = 0;            // dF(S_k): KL without Patch minus kl
  double gain_per_cost = 0;   // dF(S_k) / (c0 + c k), the curve whose argmax is `auto_k`
  double gain_per_layer = 0;  // dF(S_k) / (c k), the paper's
};

// One measured group of layers that the consumer recomputes over raw state elsewhere.
struct SelectiveGroup {
  LayerRange layers;
  double kl = 0;  // held-out KL(oracle || selective), nats
  double bytes_fraction =
      0;  // bytes of its transfer over those of raw state, both in one codec of 16 or 32 bits
};

// Quality against recomputed layers (DroidSpeak, arXiv 2411.02820).
struct SelectiveProfile {
  double kl_raw = 0;                   // with no layer recomputed; 0 where nothing was measured
  std::vector<SelectiveGroup> groups;  // measured
  std::optional<LayerRange> default_group;
};

struct CalibrationRecord {
  std::string corpus;  // description
  std::int64_t num_prefixes = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_held_out_prefixes = 0;
  double ridge_lambda = 0;       // relative to the mean diagonal of A^T A
  std::int64_t native_head = 1;  // rows left out of the fits
};

// Held-out quality with the default plan, against the consumer's own native prefill.
struct HeldOutQuality {
  double kl_reuse = 0;  // nats, Reuse alone
  double kl_scd = 0;    // with the default Patch layers
  double ppl_native = 0;
  double ppl_reuse = 0;
  double ppl_scd = 0;
  double kl_fused = 0;  // every layer fused, bf16 codes; 0 where the bundle has none
  double ppl_fused = 0;
};

struct BundleManifest {
  std::int64_t version = kBundleVersion;
  std::string created_by;  // program and version
  BundleModel producer;
  BundleModel consumer;
  std::string architecture;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;

  // The default plan, and what was fitted.
  std::int64_t default_rank_k = 0, max_rank_k = 0;
  std::int64_t default_rank_v = 0, max_rank_v = 0;
  std::int64_t default_rank_h = 0;
  std::vector<std::int64_t> ranks_h;           // fitted for every candidate, ascending
  std::vector<std::int64_t> candidate_layers;  // layers with a Patch translator, most sensitive first
  std::vector<std::int64_t> default_patch_layers;
  std::int64_t native_head = 1;
  std::int64_t native_tail = 16;
  std::int64_t mlp_width = 0;
  FusedShape fused;
  std::vector<RatePoint> rate_points;  // ascending distortion; empty: no tables for the entropy codec
  std::int64_t default_rate_point = 0;

  std::vector<std::int32_t> untranslatable_ids;  // consumer ids that the producer lacks or maps to other text
  std::vector<LayerErrors> layer_errors;         // one for each layer
  std::vector<PatchChoiceStep> patch_choice;     // S_1, S_2, ... over the candidates
  SelectiveProfile selective;
  CalibrationRecord calibration;
  HeldOutQuality quality;
  Digest tensors_digest;  // "scd.bundle.tensors.v1" over the bytes of tensors.safetensors

  std::int64_t d_kv() const { return num_kv_heads * head_dim; }
  // The group of Fused layers that a layer belongs to.
  LayerRange FusedGroup(std::int64_t layer) const {
    const std::int64_t first = layer - layer % fused.group;
    return {.first = first, .last = std::min(first + fused.group, num_layers) - 1};
  }
};

// INVALID_ARGUMENT naming the field; UNIMPLEMENTED for a newer version, FAILED_PRECONDITION for an older one,
// which has to be fitted again. Unknown fields are refused; sizes, ranks and layers are in range and agree
// with each other in what is returned.
absl::StatusOr<BundleManifest> ParseManifest(absl::string_view text, absl::string_view origin);
// What ParseManifest reads back, laid out for people: one field a line, one layer a line.
std::string ManifestToJson(const BundleManifest& manifest);

}  // namespace scd

#endif  // SCD_COMMON_BUNDLE_MANIFEST_H_
