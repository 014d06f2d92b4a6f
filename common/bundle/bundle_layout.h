// Names and shapes of the tensors of a bundle (docs/formats.md): what a manifest promises, the writer writes
// and Open asks for. All are f32 but the frequencies of the entropy codec, which are i32.
#ifndef SCD_COMMON_BUNDLE_BUNDLE_LAYOUT_H_
#define SCD_COMMON_BUNDLE_BUNDLE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/bundle/manifest.h"
#include "common/config/layer_plan.h"
#include "kernels/tensor_view.h"

namespace scd {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kTensorsFile[] = "tensors.safetensors";

// Parts of the maps of one layer and kind, fitted once at the largest rank and served at lower ones by their
// first rows or columns: "encoder" [rank, in], "encoder_bias" [rank], "decoder" [out, rank], "decoder_bias"
// [out]. "layers.3.k.encoder".
std::string TranslatorTensorName(std::int64_t layer, CodeKind kind, std::string_view part);

// Of kKV every layer of a group has an encoder [rank, hidden], its share of the code, and a decoder [2 d_kv,
// rank]; "encoder_bias" and the tables of the entropy codec are the last one's.
//
// Parts of the aligner's MLP, fitted for each rank of ranks_h: "mlp_in" [mlp_width, rank], "mlp_in_bias"
// [mlp_width], "mlp_out" [hidden, mlp_width], "mlp_out_bias" [hidden]. "layers.3.h.384.mlp_in".
std::string AlignerTensorName(std::int64_t layer, std::int64_t rank, std::string_view part);

// Tables of the entropy codec (common/config/entropy_tables.h) for the code of one layer and kind at one rate
// point, for the largest rank: "steps" [rank] and "frequencies" [rank, kEntropySymbols] (i32).
// "layers.3.k.rate.0.steps".
std::string EntropyTensorName(std::int64_t layer, CodeKind kind, std::int64_t rate_point,
                              std::string_view part);

struct BundleTensor {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
};

// Kinds of codes that a layer of this bundle may send, and the largest rank of each.
std::vector<SentKind> FittedKinds(const BundleManifest& manifest, std::int64_t layer);

// Every tensor of a bundle with this manifest (which ParseManifest has checked), and no other.
std::vector<BundleTensor> BundleTensors(const BundleManifest& manifest);

}  // namespace scd

#endif  // SCD_COMMON_BUNDLE_BUNDLE_LAYOUT_H_
