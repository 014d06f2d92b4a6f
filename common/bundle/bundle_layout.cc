#include "common/bundle/bundle_layout.h"

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

void AddTranslator(std::int64_t layer, CodeKind kind, std::int64_t rank, std::int64_t width,
                   std::vector<BundleTensor>& tensors) {
  tensors.push_back({TranslatorTensorName(layer, kind, "encoder"), {rank, width}});
  tensors.push_back({TranslatorTensorName(layer, kind, "encoder_bias"), {rank}});
  tensors.push_back({TranslatorTensorName(layer, kind, "decoder"), {width, rank}});
  tensors.push_back({TranslatorTensorName(layer, kind, "decoder_bias"), {width}});
}

}  // namespace

std::string TranslatorTensorName(std::int64_t layer, CodeKind kind, std::string_view part) {
  return absl::StrCat("layers.", layer, ".", std::string(CodeKindName(kind)), ".", std::string(part));
}

std::string AlignerTensorName(std::int64_t layer, std::int64_t rank, std::string_view part) {
  return absl::StrCat("layers.", layer, ".h.", rank, ".", std::string(part));
}

std::vector<BundleTensor> BundleTensors(const BundleManifest& manifest) {
  std::vector<BundleTensor> tensors;
  for (std::int64_t layer = 0; layer < manifest.num_layers; ++layer) {
    AddTranslator(layer, CodeKind::kK, manifest.max_rank_k, manifest.d_kv(), tensors);
    AddTranslator(layer, CodeKind::kV, manifest.max_rank_v, manifest.d_kv(), tensors);
  }
  for (const std::int64_t layer : manifest.candidate_layers) {
    AddTranslator(layer, CodeKind::kH, manifest.ranks_h.back(), manifest.hidden_size, tensors);
    for (const std::int64_t rank : manifest.ranks_h) {
      tensors.push_back({AlignerTensorName(layer, rank, "mlp_in"), {manifest.mlp_width, rank}});
      tensors.push_back({AlignerTensorName(layer, rank, "mlp_in_bias"), {manifest.mlp_width}});
      tensors.push_back(
          {AlignerTensorName(layer, rank, "mlp_out"), {manifest.hidden_size, manifest.mlp_width}});
      tensors.push_back({AlignerTensorName(layer, rank, "mlp_out_bias"), {manifest.hidden_size}});
    }
  }
  return tensors;
}

}  // namespace scd
