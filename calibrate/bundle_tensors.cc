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

void AddFused(const FusedGroup& group, std::vector<NamedTensor>& out) {
  const AffineTranslator& t = group.linear.translator;
  const std::int64_t hidden = t.in / group.layers.size();
  const std::int64_t outputs = t.out / group.layers.size();
  for (std::int64_t i = 0; i < group.layers.size(); ++i) {
    const LayerFused& layer = group.each[static_cast<std::size_t>(i)];
    const auto name = [&](std::string_view part) {
      return TranslatorTensorName(group.layers.first + i, CodeKind::kKV, part);
    };
    const auto rows = [](const std::vector<float>& values, std::int64_t first, const Shape& shape) {
      return ConstTensorView(values.data() + first, DType::kF32, shape);
    };
    out.push_back({name("encoder"), View(layer.encoder, {t.rank, hidden})});
    out.push_back({name("decoder"), rows(t.decoder, i * outputs * t.rank, {outputs, t.rank})});
    out.push_back({name("decoder_bias"), rows(t.decoder_bias, i * outputs, {outputs})});
    if (i + 1 == group.layers.size()) out.push_back({name("encoder_bias"), View(t.encoder_bias, {t.rank})});
  }
}

void AddTables(const CodeTables& code, std::int64_t rate_point, std::vector<NamedTensor>& out) {
  const auto name = [&](std::string_view part) {
    return EntropyTensorName(code.layer, code.kind, rate_point, part);
  };
  const auto rank = static_cast<std::int64_t>(code.fit.steps.size());
  out.push_back({name("steps"), View(code.fit.steps, {rank})});
  out.push_back({name("frequencies"),
                 ConstTensorView(code.fit.frequencies.data(), DType::kI32, Shape{rank, kEntropySymbols})});
}

}  // namespace

std::vector<NamedTensor> BundleTensorsOf(const FittedPair& fitted) {
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < fitted.reuse.size(); ++i) {
    AddTranslator(static_cast<std::int64_t>(i), CodeKind::kK, fitted.reuse[i].k, out);
    AddTranslator(static_cast<std::int64_t>(i), CodeKind::kV, fitted.reuse[i].v, out);
  }
  for (const LayerPatch& layer : fitted.patch) {
    AddTranslator(layer.layer, CodeKind::kH, layer.linear, out);
    for (const AlignerNetwork& n : layer.ranks) {
      const auto name = [&](std::string_view part) { return AlignerTensorName(layer.layer, n.in, part); };
      out.push_back({name("mlp_in"), View(n.mlp_in, {n.width(), n.in})});
      out.push_back({name("mlp_in_bias"), View(n.mlp_in_bias, {n.width()})});
      out.push_back({name("mlp_out"), View(n.mlp_out, {n.out(), n.width()})});
      out.push_back({name("mlp_out_bias"), View(n.mlp_out_bias, {n.out()})});
    }
  }
  for (const FusedGroup& group : fitted.fused) AddFused(group, out);
  for (std::size_t i = 0; i < fitted.rates.size(); ++i) {
    for (const CodeTables& code : fitted.rates[i].tables) AddTables(code, static_cast<std::int64_t>(i), out);
  }
  return out;
}

}  // namespace scd
