#include "common/bundle/bundle_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/config/entropy_tables.h"

namespace scd {
namespace {

void AddTranslator(std::int64_t layer, CodeKind kind, std::int64_t rank, std::int64_t in, std::int64_t out,
                   std::vector<BundleTensor>& tensors) {
  tensors.push_back({TranslatorTensorName(layer, kind, "encoder"), {rank, in}});
  tensors.push_back({TranslatorTensorName(layer, kind, "encoder_bias"), {rank}});
  tensors.push_back({TranslatorTensorName(layer, kind, "decoder"), {out, rank}});
  tensors.push_back({TranslatorTensorName(layer, kind, "decoder_bias"), {out}});
}

void AddFused(const BundleManifest& m, std::int64_t layer, std::vector<BundleTensor>& tensors) {
  const auto add = [&](std::string_view part, const Shape& shape) {
    tensors.push_back({TranslatorTensorName(layer, CodeKind::kKV, part), shape});
  };
  add("encoder", {m.fused.rank, m.hidden_size});
  if (layer == m.FusedGroup(layer).last) add("encoder_bias", {m.fused.rank});
  add("decoder", {2 * m.d_kv(), m.fused.rank});
  add("decoder_bias", {2 * m.d_kv()});
}

void AddTables(const BundleManifest& m, std::int64_t layer, std::vector<BundleTensor>& tensors) {
  for (std::size_t i = 0; i < m.rate_points.size(); ++i) {
    const auto point = static_cast<std::int64_t>(i);
    for (const SentKind& fitted : FittedKinds(m, layer)) {
      tensors.push_back({EntropyTensorName(layer, fitted.kind, point, "steps"), {fitted.rank}});
      tensors.push_back({EntropyTensorName(layer, fitted.kind, point, "frequencies"),
                         {fitted.rank, kEntropySymbols},
                         DType::kI32});
    }
  }
}

}  // namespace

std::string TranslatorTensorName(std::int64_t layer, CodeKind kind, std::string_view part) {
  return absl::StrCat("layers.", layer, ".", std::string(CodeKindName(kind)), ".", std::string(part));
}

std::string AlignerTensorName(std::int64_t layer, std::int64_t rank, std::string_view part) {
  return absl::StrCat("layers.", layer, ".h.", rank, ".", std::string(part));
}

std::string EntropyTensorName(std::int64_t layer, CodeKind kind, std::int64_t rate_point,
                              std::string_view part) {
  return absl::StrCat("layers.", layer, ".", std::string(CodeKindName(kind)), ".rate.", rate_point, ".",
                      std::string(part));
}

std::vector<SentKind> FittedKinds(const BundleManifest& manifest, std::int64_t layer) {
  std::vector<SentKind> kinds = {{CodeKind::kK, manifest.max_rank_k}, {CodeKind::kV, manifest.max_rank_v}};
  const auto& candidates = manifest.candidate_layers;
  if (std::find(candidates.begin(), candidates.end(), layer) != candidates.end()) {
    kinds.push_back({CodeKind::kH, manifest.ranks_h.back()});
  }
  if (manifest.fused.rank > 0 && layer == manifest.FusedGroup(layer).last) {
    kinds.push_back({CodeKind::kKV, manifest.fused.rank});
  }
  return kinds;
}

std::vector<BundleTensor> BundleTensors(const BundleManifest& manifest) {
  std::vector<BundleTensor> tensors;
  for (std::int64_t layer = 0; layer < manifest.num_layers; ++layer) {
    AddTranslator(layer, CodeKind::kK, manifest.max_rank_k, manifest.d_kv(), manifest.d_kv(), tensors);
    AddTranslator(layer, CodeKind::kV, manifest.max_rank_v, manifest.d_kv(), manifest.d_kv(), tensors);
    if (manifest.fused.rank > 0) AddFused(manifest, layer, tensors);
    AddTables(manifest, layer, tensors);
  }
  for (const std::int64_t layer : manifest.candidate_layers) {
    AddTranslator(layer, CodeKind::kH, manifest.ranks_h.back(), manifest.hidden_size, manifest.hidden_size,
                  tensors);
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
