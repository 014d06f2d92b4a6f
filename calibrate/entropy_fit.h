// The tables of the entropy codec for one code (common/config/entropy_tables.h), from statistics of its
// columns.
#ifndef SCD_CALIBRATE_ENTROPY_FIT_H_
#define SCD_CALIBRATE_ENTROPY_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "calibrate/translator.h"
#include "common/config/entropy_tables.h"
#include "kernels/tensor_view.h"

namespace scd {

struct EntropyFit {
  std::vector<float> steps;               // [rank]
  std::vector<std::int32_t> frequencies;  // [rank, kEntropySymbols]

  EntropyTables view() const { return {steps, frequencies}; }
};

// How much a square error of each column of the code weighs in the output: the squared length of the
// decoder's column where every output is divided by its spread. spread: [out].
std::vector<double> ColumnWeights(const AffineTranslator& translator, absl::Span<const double> spread);

// Reverse water-filling. A column whose variance in the output (variance x weight) is below `distortion` is
// not sent: step 0. Every other has the mean square error `distortion` there: step = sqrt(12 distortion /
// weight).
std::vector<float> FitSteps(double distortion, absl::Span<const double> variances,
                            absl::Span<const double> weights);

// Tables with these steps, whose frequencies are those of the values in rows [n, rank] f32.
EntropyFit FitTables(std::vector<float> steps, ConstTensorView rows);

// Rows as they come out of the codec.
void RoundToSteps(absl::Span<const float> steps, TensorView rows);

// The mean square of each column: of codes, which are centred, their variance.
std::vector<double> ColumnVariances(ConstTensorView rows);

}  // namespace scd

#endif  // SCD_CALIBRATE_ENTROPY_FIT_H_
