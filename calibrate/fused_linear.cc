#include "calibrate/fused_linear.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "calibrate/entropy_fit.h"
#include "calibrate/linear_fit.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Columns that carry nothing.
void PadRank(std::int64_t rank, LinearFit* fit) {
  Matrix encoder(fit->encoder.rows, rank), decoder(rank, fit->decoder.columns);
  for (std::int64_t r = 0; r < encoder.rows; ++r) {
    for (std::int64_t c = 0; c < fit->encoder.columns; ++c) encoder(r, c) = fit->encoder(r, c);
  }
  std::copy(fit->decoder.values.begin(), fit->decoder.values.end(), decoder.values.begin());
  fit->encoder = std::move(encoder);
  fit->decoder = std::move(decoder);
}

}  // namespace

std::vector<float> FusedLinear::OutputSpread() const {
  const std::size_t each = static_cast<std::size_t>(translator.out) / spreads.size();
  std::vector<float> out;
  for (const double spread : spreads) out.insert(out.end(), each, static_cast<float>(spread));
  return out;
}

std::vector<float> FusedLinear::Steps(double distortion) const {
  return FitSteps(distortion, variances, weights);
}

absl::StatusOr<FusedLinear> FitFusedLinear(const Moments& moments, std::int64_t num_layers, std::int64_t rank,
                                           double ridge_lambda) {
  const std::int64_t outputs = moments.ab.columns;
  const std::int64_t d_kv = outputs / (2 * num_layers);
  FusedLinear out;
  for (std::int64_t first = 0; first < outputs; first += d_kv) {
    double sum = 0;
    for (std::int64_t i = first; i < first + d_kv; ++i) sum += moments.bb(i, i);
    const double variance = sum / (static_cast<double>(d_kv) * static_cast<double>(moments.count));
    out.spreads.push_back(variance > 1e-30 ? std::sqrt(variance) : 1.0);
  }
  const auto sd = [&](std::int64_t column) { return out.spreads[static_cast<std::size_t>(column / d_kv)]; };

  Moments scaled{.count = moments.count,
                 .mean_a = moments.mean_a,
                 .mean_b = moments.mean_b,
                 .aa = moments.aa,
                 .ab = moments.ab,
                 .bb = {}};
  for (std::int64_t i = 0; i < scaled.ab.rows; ++i) {
    for (std::int64_t j = 0; j < outputs; ++j) scaled.ab(i, j) /= sd(j);
  }
  SCD_ASSIGN_OR_RETURN(LinearFit fit, FitReducedRank(scaled, std::min(rank, outputs), ridge_lambda));
  for (std::int64_t c = 0; c < fit.decoder.rows; ++c) {
    for (std::int64_t j = 0; j < outputs; ++j) fit.decoder(c, j) *= sd(j);
  }
  out.variances = CodeVariances(moments, fit);
  out.variances.resize(static_cast<std::size_t>(rank), 0.0);
  if (rank > outputs) PadRank(rank, &fit);
  out.translator = MakeTranslator(fit);
  const std::vector<float> spread = out.OutputSpread();
  out.weights = ColumnWeights(out.translator, std::vector<double>(spread.begin(), spread.end()));
  return out;
}

}  // namespace scd
