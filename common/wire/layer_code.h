// The payload of a transfer: codes of one layer and kind for consecutive tokens.
#ifndef SCD_COMMON_WIRE_LAYER_CODE_H_
#define SCD_COMMON_WIRE_LAYER_CODE_H_

#include <cstdint>
#include <string>

#include "common/config/layer_plan.h"
#include "kernels/tensor_view.h"

namespace scd {

struct LayerCode {
  std::int64_t layer = 0;
  CodeKind kind = CodeKind::kK;
  std::int64_t first_token = 0;  // position in the prompt
  std::int64_t num_tokens = 0;
  std::int64_t rank = 0;
  DType dtype = DType::kBF16;  // kBF16 or kF32
  std::string payload;         // row-major [num_tokens, rank] of dtype, little-endian

  // [num_tokens, rank] over payload; payload must hold exactly that (the frame codec has checked it).
  ConstTensorView view() const { return ConstTensorView(payload.data(), dtype, Shape{num_tokens, rank}); }
};

}  // namespace scd

#endif  // SCD_COMMON_WIRE_LAYER_CODE_H_
