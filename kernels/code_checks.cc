// Checks of the ops for codes and sampling.
#include <algorithm>
#include <string_view>

#include "kernels/bad_operand.h"
#include "kernels/checks.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status CheckLayout(std::string_view op, const GroupedIntegers& layout) {
  if ((layout.bits == 8 || layout.bits == 4) && layout.columns >= 1) return absl::OkStatus();
  return Bad(op, "layout", "has ", layout.bits, " bits and ", layout.columns, " columns");
}

}  // namespace

absl::Status CheckPackCodes(const ConstTensorView& rows, const GroupedIntegers& layout,
                            const ConstTensorView& bytes, Device device) {
  constexpr std::string_view kOp = "PackCodes";
  SCD_RETURN_IF_ERROR(CheckLayout(kOp, layout));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "rows", rows, device, {DType::kF32}, {kAnyDim, layout.columns}));
  return CheckOperand(kOp, "bytes", bytes, device, {DType::kU8}, {layout.BytesOf(rows.dim(0))});
}

absl::Status CheckUnpackCodes(const ConstTensorView& bytes, const GroupedIntegers& layout,
                              std::int64_t first_row, const ConstTensorView& out, Device device) {
  constexpr std::string_view kOp = "UnpackCodes";
  SCD_RETURN_IF_ERROR(CheckLayout(kOp, layout));
  SCD_RETURN_IF_ERROR(
      CheckOperand(kOp, "out", out, device, {DType::kF32, DType::kBF16}, {kAnyDim, layout.columns}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "bytes", bytes, device, {DType::kU8}, {kAnyDim}));
  // A row has at least a byte, which bounds what is added up.
  if (first_row < 0 || first_row > bytes.dim(0) || layout.BytesOf(first_row + out.dim(0)) > bytes.dim(0)) {
    return Bad(kOp, "bytes", "has ", bytes.dim(0), " bytes, too few for rows ", first_row, " to ",
               first_row + out.dim(0) - 1);
  }
  return absl::OkStatus();
}

absl::Status CheckTopLogits(const ConstTensorView& logits, const ConstTensorView& temperatures,
                            const TopLogitsOut& best, Device device) {
  constexpr std::string_view kOp = "TopLogits";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "logits", logits, device, {DType::kF32}, {kAnyDim, kAnyDim}));
  const std::int64_t rows = logits.dim(0);
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "temperatures", temperatures, device, {DType::kF32}, {rows}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "values", best.values, device, {DType::kF32}, {rows, kAnyDim}));
  const std::int64_t k = best.values.dim(1);
  if (k > std::min(kMaxTopLogits, logits.dim(1))) {
    return Bad(kOp, "values", "has ", k, " columns, expected at most ", kMaxTopLogits,
               " and the vocabulary's ", logits.dim(1));
  }
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "ids", best.ids, device, {DType::kI32}, {rows, k}));
  return CheckOperand(kOp, "sums", best.sums, device, {DType::kF32}, {rows, 2});
}

}  // namespace scd
