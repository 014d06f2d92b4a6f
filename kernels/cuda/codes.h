// Launchers for codes and sampling.
#ifndef SCD_KERNELS_CUDA_CODES_H_
#define SCD_KERNELS_CUDA_CODES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/grouped_integers.h"

namespace scd::cuda {

// rows [num_rows, layout.columns] -> bytes.
cudaError_t LaunchPackCodes(cudaStream_t stream, Rows<const float> rows, const GroupedIntegers& layout,
                            std::uint8_t* bytes, std::int64_t num_rows);

// Rows [first_row, first_row + num_rows) of what `bytes` hold -> out [num_rows, layout.columns], f32 or bf16.
cudaError_t LaunchUnpackCodes(cudaStream_t stream, const std::uint8_t* bytes, const GroupedIntegers& layout,
                              std::int64_t first_row, AnyRowsOut out, std::int64_t num_rows);

struct TopRows {
  Rows<float> values;      // [rows, k]
  Rows<std::int32_t> ids;  // [rows, k]
  Rows<float> sums;        // [rows, 2]
  std::int32_t k = 0;      // at most kMaxTopLogits
};

// logits [rows, vocabulary], temperatures [rows].
cudaError_t LaunchTopLogits(cudaStream_t stream, Rows<const float> logits, const float* temperatures,
                            const TopRows& best, std::int64_t rows, std::int64_t vocabulary);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_CODES_H_
