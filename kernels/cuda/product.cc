#include "kernels/cuda/product.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/quantized.h"
#include "kernels/cuda/view_rows.h"
#include "kernels/status_macros.h"

namespace scd::cuda {
namespace {

// Up to this many rows quantised weights are read as they are; from there on it costs less to write them out
// once and let the library multiply.
constexpr std::int64_t kFewRows = 2 * kMostFewRows;
constexpr std::size_t kMostLibraryBytes = std::size_t{32} << 20;
// Shares of the scratch memory: for the library, then of what is left for rows of x.
constexpr std::size_t kLibraryShare = 4;
constexpr std::size_t kRowsShare = 2;

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// How many items of `bytes` fit, at least one: too little memory shows when it is taken.
std::int64_t FitInto(std::size_t memory, std::size_t bytes, std::int64_t wanted) {
  return std::clamp(static_cast<std::int64_t>(memory / std::max<std::size_t>(1, bytes)), std::int64_t{1},
                    wanted);
}

class Multiplier {
 public:
  Multiplier(GemmLibrary& library, CudaStream& stream, Scratch& scratch, const Product& product)
      : library_(library), stream_(stream), scratch_(scratch), p_(product), weight_(*product.weight) {}

  absl::Status Run() {
    if (weight_.quantized() && p_.x.dim(0) <= kFewRows) return FewRowsOfQuantized();
    workspace_.bytes = std::min(kMostLibraryBytes, scratch_.left() / kLibraryShare);
    SCD_ASSIGN_OR_RETURN(workspace_.data, scratch_.Take(workspace_.bytes));
    SCD_RETURN_IF_ERROR(InPiecesOfX());
    if (bias() == nullptr) return absl::OkStatus();
    return ToStatus("MatMul", LaunchScaleAndBias(stream_.get(), RowsOf(p_.out), 1.0f, bias(), p_.out.dim(0),
                                                 p_.out.dim(1)));
  }

 private:
  const float* bias() const {
    return p_.with_bias && weight_.bias() != nullptr ? weight_.bias() + p_.columns.begin : nullptr;
  }

  // Elements of a row of x that the library multiplies: bf16 rows are padded with zeros, so that they are
  // aligned.
  std::int64_t depth() const {
    return weight_.product_dtype() == DType::kBF16 ? PaddedCount(weight_.in_features(), DType::kBF16)
                                                   : weight_.in_features();
  }

  bool UsableAsItIs(const ConstTensorView& x) const {
    if (x.dtype() != weight_.product_dtype()) return false;
    return x.dtype() == DType::kF32 || (x.dim(1) == depth() && x.stride(0) % 8 == 0 &&
                                        reinterpret_cast<std::uintptr_t>(x.data()) % 16 == 0);
  }

  // x as `dtype` with rows of `count` elements, zeros behind its own, in `memory`.
  absl::StatusOr<ConstTensorView> Converted(const ConstTensorView& x, DType dtype, std::int64_t count,
                                            void* memory) {
    const TensorView to(memory, dtype, {x.dim(0), count}, Device::kCuda);
    SCD_RETURN_IF_ERROR(ToStatus(
        "MatMul", LaunchConvert(stream_.get(), AnyRowsOutOf(to), AnyRowsOf(x), x.dim(0), x.dim(1), count)));
    return to;
  }

  absl::Status FewRowsOfQuantized() {
    ConstTensorView x = p_.x;
    if (x.dtype() != DType::kF32) {
      const std::size_t bytes = static_cast<std::size_t>(x.num_elements()) * sizeof(float);
      SCD_ASSIGN_OR_RETURN(void* memory, scratch_.Take(bytes));
      SCD_ASSIGN_OR_RETURN(x, Converted(x, DType::kF32, x.dim(1), memory));
    }
    for (std::int64_t row = 0; row < x.dim(0); row += kMostFewRows) {
      const std::int64_t count = std::min<std::int64_t>(kMostFewRows, x.dim(0) - row);
      SCD_RETURN_IF_ERROR(
          ToStatus("MatMul", LaunchQuantizedProduct(stream_.get(), RowsOf(x.rows(row, count)), count,
                                                    weight_.quantized_rows(), p_.columns.begin, p_.out.dim(1),
                                                    bias(), p_.accumulate, RowsOf(p_.out.rows(row, count)))));
    }
    return absl::OkStatus();
  }

  absl::Status InPiecesOfX() {
    if (UsableAsItIs(p_.x)) return MultiplyRows(p_.x, p_.out, scratch_);
    const std::size_t row_bytes = static_cast<std::size_t>(depth()) * DTypeBytes(weight_.product_dtype());
    const std::int64_t piece = FitInto(scratch_.left() / kRowsShare, row_bytes, p_.x.dim(0));
    SCD_ASSIGN_OR_RETURN(void* memory, scratch_.Take(static_cast<std::size_t>(piece) * row_bytes));
    for (std::int64_t row = 0; row < p_.x.dim(0); row += piece) {
      const std::int64_t count = std::min(piece, p_.x.dim(0) - row);
      SCD_ASSIGN_OR_RETURN(const ConstTensorView x,
                           Converted(p_.x.rows(row, count), weight_.product_dtype(), depth(), memory));
      SCD_RETURN_IF_ERROR(MultiplyRows(x, p_.out.rows(row, count), scratch_));
    }
    return absl::OkStatus();
  }

  // x as the library takes it. `scratch` is a copy: each call takes the same memory.
  absl::Status MultiplyRows(const ConstTensorView& x, const TensorView& out, Scratch scratch) {
    if (!weight_.quantized()) {
      return MultiplyColumns(x, weight_.dense_row(p_.columns.begin), weight_.stride(), out);
    }
    // Some of the weight's rows at a time, written out.
    const DType dtype = weight_.product_dtype();
    const std::size_t row_bytes = static_cast<std::size_t>(weight_.in_features()) * DTypeBytes(dtype);
    const std::int64_t columns = out.dim(1);
    const std::int64_t piece = FitInto(scratch.left(), row_bytes, columns);
    SCD_ASSIGN_OR_RETURN(void* memory, scratch.Take(static_cast<std::size_t>(piece) * row_bytes));
    for (std::int64_t column = 0; column < columns; column += piece) {
      const std::int64_t count = std::min(piece, columns - column);
      SCD_RETURN_IF_ERROR(
          ToStatus("MatMul",
                   LaunchDequantize(stream_.get(), weight_.quantized_rows(), p_.columns.begin + column, count,
                                    {.data = memory, .dtype = dtype, .stride = weight_.in_features()})));
      SCD_RETURN_IF_ERROR(MultiplyColumns(x, memory, weight_.in_features(), out.columns(column, count)));
    }
    return absl::OkStatus();
  }

  absl::Status MultiplyColumns(const ConstTensorView& x, const void* weight_rows, std::int64_t weight_stride,
                               const TensorView& out) {
    return library_.Multiply({.dtype = weight_.product_dtype(),
                              .transpose_b = true,
                              .m = x.dim(0),
                              .n = out.dim(1),
                              .k = depth(),
                              .a = x.data(),
                              .a_stride = x.stride(0),
                              .b = weight_rows,
                              .b_stride = weight_stride,
                              .c = out.as<float>(),
                              .c_stride = out.stride(0),
                              .beta = p_.accumulate ? 1.0f : 0.0f},
                             workspace_.data, workspace_.bytes, stream_.get());
  }

  GemmLibrary& library_;
  CudaStream& stream_;
  Scratch& scratch_;
  const Product& p_;
  const CudaWeight& weight_;
  Workspace workspace_;
};

}  // namespace

absl::Status Multiply(GemmLibrary& library, CudaStream& stream, Scratch& scratch, const Product& product) {
  if (product.x.dim(0) == 0) return absl::OkStatus();
  return Multiplier(library, stream, scratch, product).Run();
}

}  // namespace scd::cuda
