#include "calibrate/entropy_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace scd {
namespace {

// The value that the codec sends for a number: rounded half to even.
float Quantised(float number, float inverse) {
  return std::nearbyint(number * inverse);
}

std::int64_t SymbolOf(float value) {
  constexpr auto kLargest = static_cast<float>(kLargestSymbolValue);
  if (!(std::abs(value) <= kLargest)) return kEscapeSymbol;
  return static_cast<std::int64_t>(value) + kLargestSymbolValue;
}

}  // namespace

std::vector<double> ColumnWeights(const AffineTranslator& translator, absl::Span<const double> spread) {
  const auto rank = static_cast<std::size_t>(translator.rank);
  std::vector<double> weights(rank, 0.0);
  for (std::size_t o = 0; o < spread.size(); ++o) {
    const float* row = translator.decoder.data() + o * rank;
    for (std::size_t c = 0; c < rank; ++c) {
      const double scaled = static_cast<double>(row[c]) / spread[o];
      weights[c] += scaled * scaled;
    }
  }
  return weights;
}

std::vector<float> FitSteps(double distortion, absl::Span<const double> variances,
                            absl::Span<const double> weights) {
  std::vector<float> steps;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    const bool sent = weights[c] > 0.0 && variances[c] * weights[c] >= distortion;
    const double step = sent ? std::sqrt(12.0 * distortion / weights[c]) : 0.0;
    steps.push_back(sent ? std::clamp(static_cast<float>(step), kSmallestEntropyStep, kLargestEntropyStep)
                         : 0.0f);
  }
  return steps;
}

EntropyFit FitTables(std::vector<float> steps, ConstTensorView rows) {
  const std::size_t rank = steps.size();
  std::vector<std::int64_t> counts(rank * kEntropySymbols, 0);
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    const float* row = rows.row<float>(r);
    for (std::size_t c = 0; c < rank; ++c) {
      if (steps[c] == 0.0f) continue;
      const std::int64_t symbol = SymbolOf(Quantised(row[c], 1.0f / steps[c]));
      ++counts[c * kEntropySymbols + static_cast<std::size_t>(symbol)];
    }
  }
  EntropyFit fit{.steps = std::move(steps), .frequencies = std::vector<std::int32_t>(counts.size(), 0)};
  for (std::size_t c = 0; c < rank; ++c) {
    if (fit.steps[c] == 0.0f) continue;
    const std::vector<std::int32_t> column =
        FitFrequencies(absl::MakeConstSpan(counts).subspan(c * kEntropySymbols, kEntropySymbols));
    std::copy(column.begin(), column.end(),
              fit.frequencies.begin() + static_cast<std::ptrdiff_t>(c * kEntropySymbols));
  }
  return fit;
}

void RoundToSteps(absl::Span<const float> steps, TensorView rows) {
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    float* row = rows.row<float>(r);
    for (std::size_t c = 0; c < steps.size(); ++c) {
      row[c] = steps[c] == 0.0f ? 0.0f : Quantised(row[c], 1.0f / steps[c]) * steps[c];
    }
  }
}

std::vector<double> ColumnVariances(ConstTensorView rows) {
  std::vector<double> variances(static_cast<std::size_t>(rows.dim(1)), 0.0);
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    const float* row = rows.row<float>(r);
    for (std::size_t c = 0; c < variances.size(); ++c) variances[c] += static_cast<double>(row[c]) * row[c];
  }
  for (double& v : variances) v /= std::max<double>(1.0, static_cast<double>(rows.dim(0)));
  return variances;
}

}  // namespace scd
