#include "common/model/code_rows.h"

namespace scd {

TapKind TapFor(CodeKind kind) {
  switch (kind) {
    case CodeKind::kK:
      return TapKind::kKPreRope;
    case CodeKind::kV:
      return TapKind::kV;
    case CodeKind::kH:
    case CodeKind::kKV:
      return TapKind::kAttentionInput;
    case CodeKind::kResidual:
      return TapKind::kResidual;
  }
  return TapKind::kResidual;
}

ConstTensorView RowsFor(CodeKind kind, const LayerView& view) {
  switch (kind) {
    case CodeKind::kK:
      return view.k_pre_rope;
    case CodeKind::kV:
      return view.v;
    case CodeKind::kH:
    case CodeKind::kKV:
      return view.attention_input;
    case CodeKind::kResidual:
      return view.residual;
  }
  return {};
}

}  // namespace scd
