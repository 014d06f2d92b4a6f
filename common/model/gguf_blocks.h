// Quantised blocks of GGUF tensors as a QuantizedMatrix: the same numbers, without a detour over floats.
#ifndef SCD_COMMON_MODEL_GGUF_BLOCKS_H_
#define SCD_COMMON_MODEL_GGUF_BLOCKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/model/gguf_dequantise.h"
#include "kernels/quantized_matrix.h"

namespace scd {

// Whether tensors of this type consist of quantised blocks.
bool IsBlockType(GgmlType type);

struct ConvertedBlocks {
  QuantizedMatrix matrix;
  // Whether the matrix stands for exactly the numbers of the blocks. q6_k has a scale for every 16 weights
  // and is quantised again, to 8 bits in groups of 32.
  bool exact = true;
};

// Rows of `columns` weights; row i of the result is row source_row(i) of the tensor at `blocks` (rows move
// whole, so the blocks stay as they are). q4_0, q4_1 and q4_k give 4 bits, all others 8. `type` is a block
// type, columns a multiple of its GgmlBlockElements. INVALID_ARGUMENT where a scale is NaN or infinite.
absl::StatusOr<ConvertedBlocks> ConvertBlocks(GgmlType type, const std::byte* blocks, std::int64_t rows,
                                              std::int64_t columns,
                                              absl::FunctionRef<std::int64_t(std::int64_t)> source_row);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_GGUF_BLOCKS_H_
