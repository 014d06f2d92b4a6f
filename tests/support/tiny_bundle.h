// Small valid bundles for tests: random translators, or the identity, which sends the producer's state
// unchanged.
#ifndef SCD_TESTS_SUPPORT_TINY_BUNDLE_H_
#define SCD_TESTS_SUPPORT_TINY_BUNDLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bundle/manifest.h"
#include "common/config/layer_plan.h"
#include "common/config/model_config.h"
#include "common/io/digest.h"
#include "common/io/safetensors.h"

namespace scd::testing {

struct TinyBundleOptions {
  // Full ranks, encoder = decoder = I, MLP = 0: with f32 codes, what is rebuilt is exactly what was encoded.
  // Sets the ranks below to d_kv and hidden size.
  bool identity = false;
  std::int64_t max_rank_k = 6, default_rank_k = 5;
  std::int64_t max_rank_v = 8, default_rank_v = 7;
  std::vector<std::int64_t> ranks_h = {8,
                                       16};  // the last is the default; empty together with candidate_layers
  std::vector<std::int64_t> candidate_layers = {1, 2};
  std::vector<std::int64_t> default_patch_layers = {1};
  std::int64_t mlp_width = 12;
  FusedShape fused = {.rank = 10};  // cut to the shape; rank 0: none
  // With identity: the folder of a model without K/V biases and norms (bf16 safetensors) whose K and V the
  // Fused codes are; sets their rank.
  std::string fused_model = {};
  // Steps of the entropy codec: of every column with identity, else of all but each fifth, which is not sent.
  // The first is the default.
  std::vector<double> distortions = {0.0001, 0.01};
  std::int64_t native_head = 1;
  std::int64_t native_tail = 2;
  std::vector<std::int32_t> untranslatable_ids;
  // The selective profile's default group, cut to the model's layers; absent: the pair was not profiled.
  std::optional<LayerRange> default_recompute = LayerRange{.first = 1, .last = 2};
  std::uint32_t seed = 1;
};

// A manifest for models of this shape; ranks are cut to what the shape allows. tensors_digest is made up.
BundleManifest TinyManifest(const ModelConfig& config, const BundleModel& producer,
                            const BundleModel& consumer, const TinyBundleOptions& options = {});

// A model that a test needs no files of: digests made from its name.
BundleModel MadeUpModel(const std::string& name);

// The shape of tests/data/tiny-llama.
ModelConfig TinyConfig();

// Tensors by name; a test may change, drop or add some before it writes them.
class BundleTensorValues {
 public:
  struct Tensor {
    Shape shape;
    std::vector<float> values;
    std::vector<std::int32_t> integers = {};  // instead of values, of frequencies
  };

  // Every tensor that the manifest promises, random (rows of about unit gain) or the identity.
  BundleTensorValues(const BundleManifest& manifest, bool identity, std::uint32_t seed);

  std::map<std::string, Tensor>& tensors() { return tensors_; }
  // Views into this.
  std::vector<NamedTensor> Named() const;

 private:
  std::map<std::string, Tensor> tensors_;
};

// Writes TinyManifest and its BundleTensorValues to `folder`; returns the bundle's digest.
absl::StatusOr<Digest> WriteTinyBundle(const std::string& folder, const ModelConfig& config,
                                       const BundleModel& producer, const BundleModel& consumer,
                                       const TinyBundleOptions& options = {});

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_TINY_BUNDLE_H_
