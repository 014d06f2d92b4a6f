// What of a layer's state a code is made from.
#ifndef SCD_COMMON_MODEL_CODE_ROWS_H_
#define SCD_COMMON_MODEL_CODE_ROWS_H_

#include "common/config/layer_plan.h"
#include "common/model/layer_tap.h"

namespace scd {

// What a tap asks for so that codes of this kind can be made.
TapKind TapFor(CodeKind kind);

// The rows that a code of this kind encodes: [rows, d_kv] for kK (before RoPE) and kV, [rows, hidden] for the
// others. Empty where the tap did not ask for them.
ConstTensorView RowsFor(CodeKind kind, const LayerView& view);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_CODE_ROWS_H_
