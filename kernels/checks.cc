#include "kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::initializer_list<DType> kFloat = {DType::kF32};
constexpr std::initializer_list<DType> kIndex = {DType::kI32};
constexpr std::initializer_list<DType> kAnyFloat = {DType::kF32, DType::kF16, DType::kBF16};

bool IsFloat(DType dtype) {
  return std::find(kAnyFloat.begin(), kAnyFloat.end(), dtype) != kAnyFloat.end();
}

std::string Expected(std::initializer_list<std::int64_t> dims) {
  std::string text = "[";
  const char* separator = "";
  for (const std::int64_t dim : dims) {
    absl::StrAppend(&text, separator, dim == kAnyDim ? "any" : absl::StrCat(dim));
    separator = ", ";
  }
  return text + "]";
}

// Memory order: last dimension of stride 1, inner dimensions packed, the first one at least as far apart as
// that.
absl::Status CheckStrides(std::string_view op, std::string_view operand, const ConstTensorView& view) {
  std::int64_t packed = 1;
  for (int i = view.rank() - 1; i >= 0; --i) {
    const bool first_of_many = i == 0 && view.rank() > 1;
    const bool good =
        view.dim(i) <= 1 || (first_of_many ? view.stride(i) >= packed : view.stride(i) == packed);
    if (!good)
      return Bad(op, operand, "has stride ", view.stride(i), " in dimension ", i, ", expected ", packed);
    packed *= view.dim(i);
  }
  return absl::OkStatus();
}

absl::Status CheckBiasAndCuts(std::string_view op, std::int64_t out_features, const ConstTensorView& bias,
                              absl::Span<const std::int64_t> cuts) {
  std::int64_t previous = 0;
  for (const std::int64_t cut : cuts) {
    if (cut <= previous || cut >= out_features) {
      return Bad(op, "cuts", "has ", cut, " after ", previous, ", expected ascending values below ",
                 out_features);
    }
    previous = cut;
  }
  if (bias.empty()) return absl::OkStatus();
  return CheckOperand(op, "bias", bias, Device::kHost, kFloat, {out_features});
}

}  // namespace

absl::Status CheckOperand(std::string_view op, std::string_view operand, const ConstTensorView& view,
                          Device device, std::initializer_list<DType> dtypes,
                          std::initializer_list<std::int64_t> expected) {
  bool fits = view.rank() == static_cast<int>(expected.size());
  for (int i = 0; fits && i < view.rank(); ++i) {
    const std::int64_t want = expected.begin()[i];
    fits = want == kAnyDim ? view.dim(i) >= (i == 0 ? 0 : 1) : view.dim(i) == want;
  }
  if (!fits)
    return Bad(op, operand, "has shape ", view.shape().ToString(), ", expected ", Expected(expected));
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype()) == dtypes.end()) {
    return Bad(op, operand, "has dtype ", Text(DTypeName(view.dtype())), ", which this op does not take");
  }
  if (view.device() != device) return Bad(op, operand, "lies on another device than the op runs on");
  if (view.empty() && view.num_elements() > 0) return Bad(op, operand, "has no data");
  return CheckStrides(op, operand, view);
}

absl::Status CheckCopy(const ConstTensorView& dst, const ConstTensorView& src) {
  constexpr std::string_view kOp = "Copy";
  if (!(dst.shape() == src.shape())) {
    return Bad(kOp, "dst", "has shape ", dst.shape().ToString(), ", src has ", src.shape().ToString());
  }
  if (dst.dtype() != src.dtype() && !(IsFloat(dst.dtype()) && IsFloat(src.dtype()))) {
    return Bad(kOp, "dst", "has dtype ", Text(DTypeName(dst.dtype())), ", which ",
               Text(DTypeName(src.dtype())), " is not converted to");
  }
  for (int i = 0; i < src.rank(); ++i) {
    if (src.dim(i) < 0) return Bad(kOp, "src", "has shape ", src.shape().ToString());
  }
  if (src.num_elements() == 0) return absl::OkStatus();
  if (dst.empty()) return Bad(kOp, "dst", "has no data");
  if (src.empty()) return Bad(kOp, "src", "has no data");
  SCD_RETURN_IF_ERROR(CheckStrides(kOp, "dst", dst));
  return CheckStrides(kOp, "src", src);
}

absl::Status CheckPackWeight(const ConstTensorView& weight, const ConstTensorView& bias,
                             const PackOptions& options) {
  constexpr std::string_view kOp = "PackWeight";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "weight", weight, Device::kHost, kAnyFloat, {kAnyDim, kAnyDim}));
  if (weight.dim(0) < 1) return Bad(kOp, "weight", "has no rows");
  return CheckBiasAndCuts(kOp, weight.dim(0), bias, options.cuts);
}

absl::Status CheckPackQuantized(const QuantizedMatrix& weight, const ConstTensorView& bias,
                                absl::Span<const std::int64_t> cuts) {
  constexpr std::string_view kOp = "PackQuantized";
  if (const absl::Status status = weight.Validate(); !status.ok()) {
    return Bad(kOp, "weight", status.message());
  }
  return CheckBiasAndCuts(kOp, weight.out_features, bias, cuts);
}

absl::Status CheckMatMul(const ConstTensorView& x, const PackedWeight& weight, const ConstTensorView& out,
                         const MatMulOptions& options, Device device) {
  constexpr std::string_view kOp = "MatMul";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "x", x, device, kFloat, {kAnyDim, weight.in_features()}));
  const ColumnRange columns = ResultColumns(weight, options.columns);
  const absl::Span<const std::int64_t> cuts = weight.cuts();
  for (const std::int64_t column : {columns.begin, columns.end}) {
    if (column != 0 && column != weight.out_features() &&
        std::find(cuts.begin(), cuts.end(), column) == cuts.end()) {
      return Bad(kOp, "options.columns", "is cut at ", column, ", where the weight is not");
    }
  }
  if (columns.begin >= columns.end) {
    return Bad(kOp, "options.columns", "is from ", columns.begin, " to ", columns.end);
  }
  return CheckOperand(kOp, "out", out, device, kFloat, {x.dim(0), columns.end - columns.begin});
}

ColumnRange ResultColumns(const PackedWeight& weight, ColumnRange columns) {
  return {columns.begin, columns.end == 0 ? weight.out_features() : columns.end};
}

absl::Status CheckGemm(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& c,
                       const GemmOptions& options, Device device) {
  constexpr std::string_view kOp = "Gemm";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "a", a, device, kFloat, {kAnyDim, kAnyDim}));
  const std::int64_t m = a.dim(options.transpose_a ? 1 : 0);
  const std::int64_t k = a.dim(options.transpose_a ? 0 : 1);
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "b", b, device, kFloat,
                                   {options.transpose_b ? kAnyDim : k, options.transpose_b ? k : kAnyDim}));
  return CheckOperand(kOp, "c", c, device, kFloat, {m, b.dim(options.transpose_b ? 0 : 1)});
}

absl::Status CheckRmsNorm(const ConstTensorView& x, const ConstTensorView& weight, float epsilon,
                          const ConstTensorView& out, Device device) {
  constexpr std::string_view kOp = "RmsNorm";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "x", x, device, kFloat, {kAnyDim, kAnyDim}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "weight", weight, device, kFloat, {x.dim(1)}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "out", out, device, kFloat, {x.dim(0), x.dim(1)}));
  if (!(epsilon >= 0.0f) || !std::isfinite(epsilon)) return Bad(kOp, "epsilon", "is ", epsilon);
  return absl::OkStatus();
}

absl::Status CheckRopeTable(std::string_view op, std::string_view operand, const RopeTable& table,
                            std::int64_t head_dim, Device device) {
  SCD_RETURN_IF_ERROR(CheckOperand(op, absl::StrCat(Text(operand), ".cos"), table.cos, device, kFloat,
                                   {kAnyDim, head_dim / 2}));
  return CheckOperand(op, absl::StrCat(Text(operand), ".sin"), table.sin, device, kFloat,
                      {table.cos.dim(0), head_dim / 2});
}

absl::Status CheckRope(const ConstTensorView& x, const ConstTensorView& positions, const RopeTable& table,
                       Device device) {
  constexpr std::string_view kOp = "Rope";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "x", x, device, kFloat, {kAnyDim, kAnyDim, kAnyDim}));
  if (x.dim(2) % 2 != 0) return Bad(kOp, "x", "has an odd head_dim, ", x.dim(2));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "positions", positions, device, kIndex, {x.dim(0)}));
  return CheckRopeTable(kOp, "table", table, x.dim(2), device);
}

absl::Status CheckSwiGlu(const ConstTensorView& gate, const ConstTensorView& up, const ConstTensorView& out,
                         Device device) {
  constexpr std::string_view kOp = "SwiGlu";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "gate", gate, device, kFloat, {kAnyDim, kAnyDim}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "up", up, device, kFloat, {gate.dim(0), gate.dim(1)}));
  return CheckOperand(kOp, "out", out, device, kFloat, {gate.dim(0), gate.dim(1)});
}

absl::Status CheckSilu(const ConstTensorView& x, Device device) {
  return CheckOperand("Silu", "x", x, device, kFloat, {kAnyDim, kAnyDim});
}

absl::Status CheckEmbed(const ConstTensorView& table, const ConstTensorView& ids, const ConstTensorView& out,
                        Device device) {
  constexpr std::string_view kOp = "Embed";
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "table", table, device, kAnyFloat, {kAnyDim, kAnyDim}));
  SCD_RETURN_IF_ERROR(CheckOperand(kOp, "ids", ids, device, kIndex, {kAnyDim}));
  return CheckOperand(kOp, "out", out, device, kFloat, {ids.dim(0), table.dim(1)});
}

absl::Status CheckIndices(std::string_view op, std::string_view operand, const ConstTensorView& indices,
                          std::int64_t limit) {
  const std::int32_t* values = indices.as<std::int32_t>();
  for (std::int64_t i = 0; i < indices.dim(0); ++i) {
    if (values[i] < 0 || values[i] >= limit) {
      return Bad(op, operand, "has ", values[i], " at index ", i, ", expected a value in [0, ", limit, ")");
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
