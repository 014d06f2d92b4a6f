// A weight matrix as small integers in groups of 32 along a row, each group with a scale and a minimum: what
// block formats of model files (GGUF) and quantisation at load have in common. On the host; backends repack
// it.
//
//   w[o, i] = scale[o, i / 32] * q[o, i] + minimum[o, i / 32]
#ifndef SCD_KERNELS_QUANTIZED_MATRIX_H_
#define SCD_KERNELS_QUANTIZED_MATRIX_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/tensor_view.h"

namespace scd {

inline constexpr std::int64_t kWeightGroup = 32;

struct QuantizedMatrix {
  int bits = 8;                     // 4: q in 0..15; 8: q in -127..127
  std::int64_t out_features = 0;    // rows
  std::int64_t in_features = 0;     // a multiple of kWeightGroup
  std::vector<std::int8_t> values;  // [out, in], one number a byte whatever `bits` is
  std::vector<float> scales;        // [out, in / 32]
  std::vector<float> minimums;      // [out, in / 32]; empty: all 0

  // INVALID_ARGUMENT naming the field: sizes, counts, numbers outside their range, scales that are not
  // finite.
  absl::Status Validate() const;
};

// weight [out, in] f32, f16 or bf16 on the host, in a multiple of 32. 8 bits: symmetric, scale = largest
// magnitude / 127. 4 bits: from the least to the largest number of the group. INVALID_ARGUMENT for another
// shape or bits.
absl::StatusOr<QuantizedMatrix> QuantizeMatrix(ConstTensorView weight, int bits);

// Row `row` as floats: out[in_features].
void DequantizeRow(const QuantizedMatrix& matrix, std::int64_t row, float* out);

}  // namespace scd

#endif  // SCD_KERNELS_QUANTIZED_MATRIX_H_
