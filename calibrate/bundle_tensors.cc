#include "calibrate/bundle_tensors.h"

#include <string>
#include <string_view>

#include "common/bundle/bundle_layout.h"

namespace scd {
namespace {

ConstTensorView View(const std::vector<float>& values, const Shape& shape) {
  return ConstTensorView(values.data(), DType::kF32, shape);
}

void AddTranslator(std::int64_t layer, CodeKind kind, const AffineTranslator& t,
                   std::vector<NamedTensor>& out) {
  const auto name = [&](std::string_view part) { return TranslatorTensorName(layer, kind, part); };
  out.push_back({name("encoder"), View(t.encoder, {t.rank, t.in})});
  out.push_back({name("encoder_bias"), View(t.encoder_bias, {t.rank})});
  out.push_back({name("decoder"), View(t.decoder, {t.out, t.rank})});
  out.push_back({name("decoder_bias"), View(t.decoder_bias, {t.out})});
}

void AddNetwork(std::int64_t layer, std::int64_t hidden, const AlignerNetwork& n,
                std::vector<NamedTensor>& out) {
  const auto name = [&](std::string_view part) { return AlignerTensorName(layer, n.rank, part); };
  const auto width = static_cast<std::int64_t>(n.mlp_in_bias.size());
  out.push_back({name("mlp_in"), View(n.mlp_in, {width, n.rank})});
  out.push_back({name("mlp_in_bias"), View(n.mlp_in_bias, {width})});
  out.push_back({name("mlp_out"), View(n.mlp_out, {hidden, width})});
  out.push_back({name("mlp_out_bias"), View(n.mlp_out_bias, {hidden})});
}

}  // namespace

std::vector<NamedTensor> BundleTensorsOf(const std::vector<LayerReuse>& reuse,
                                         const std::vector<LayerPatch>& patch) {
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < reuse.size(); ++i) {
    AddTranslator(static_cast<std::int64_t>(i), CodeKind::kK, reuse[i].k, out);
    AddTranslator(static_cast<std::int64_t>(i), CodeKind::kV, reuse[i].v, out);
  }
  for (const LayerPatch& layer : patch) {
    AddTranslator(layer.layer, CodeKind::kH, layer.linear, out);
    for (const AlignerNetwork& network : layer.ranks) AddNetwork(layer.layer, layer.linear.out, network, out);
  }
  return out;
}

}  // namespace scd
