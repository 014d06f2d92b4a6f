// Weights in bf16 on a CPU without bf16 instructions: few rows widen them on the way; many rows widen a slice
// of columns at a time for an f32 product. Activations are rounded to bf16 as such a CPU would.
#include <algorithm>
#include <utility>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/few_rows_product.h"
#include "kernels/cpu/first_error.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/sgemm.h"
#include "kernels/status_macros.h"

namespace scd::cpu {
namespace {

// Columns that are widened together.
constexpr std::int64_t kSliceColumns = 192;

class Bf16Weight final : public CpuWeight {
 public:
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Create(const ConstTensorView& weight,
                                                           const ConstTensorView& bias,
                                                           absl::Span<const std::int64_t> cuts) {
    auto values = hwy::AllocateAligned<std::uint16_t>(static_cast<std::size_t>(weight.num_elements()));
    if (values == nullptr) return absl::ResourceExhaustedError("no memory for a packed weight");
    ConvertRows(weight, TensorView(values.get(), DType::kBF16, weight.shape()), 0, weight.dim(0));
    auto packed = std::unique_ptr<Bf16Weight>(new Bf16Weight(weight, cuts, std::move(values)));
    SCD_RETURN_IF_ERROR(packed->SetBias(bias));
    return packed;
  }

  std::int64_t size_bytes() const override { return DenseBytes(DType::kBF16); }

  absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out, Range columns,
                        bool accumulate) const override {
    const std::int64_t rows = x.dim(0);
    auto rounded = hwy::AllocateAligned<float>(static_cast<std::size_t>(rows * in_features()));
    if (rounded == nullptr) return absl::ResourceExhaustedError("no memory for the operands of a product");
    RoundRows(x, rounded.get());
    if (rows > kFewRows) return MultiplySlices(pool, rounded.get(), out, columns, accumulate);
    const FewRowsProduct product{rounded.get(),       in_features(),   rows,          in_features(),
                                 bias(columns.begin), out.as<float>(), out.stride(0), accumulate};
    const std::uint16_t* values = values_.get() + columns.begin * in_features();
    const Partition pieces = FewRowsPieces(pool.num_threads(), columns.end - columns.begin, in_features());
    pool.ParallelFor(pieces.num_pieces(), [&](std::int64_t i) {
      MultiplyFewRowsBf16(product, values, pieces[i].begin, pieces[i].end);
    });
    return absl::OkStatus();
  }

  bool rounds_x() const override { return true; }

 private:
  bool UnpackRow(std::int64_t row, float* out) const override {
    ConvertRow(DType::kBF16, values_.get() + row * in_features(), DType::kF32, out, in_features());
    return true;
  }

  Bf16Weight(const ConstTensorView& weight, absl::Span<const std::int64_t> cuts,
             hwy::AlignedFreeUniquePtr<std::uint16_t[]> values)
      : CpuWeight(weight.dim(0), weight.dim(1), cuts), values_(std::move(values)) {}

  // x, rounded to bf16 and held in f32.
  void RoundRows(const ConstTensorView& x, float* rounded) const {
    auto bf16_row = std::make_unique<std::uint16_t[]>(static_cast<std::size_t>(in_features()));
    for (std::int64_t r = 0; r < x.dim(0); ++r) {
      ConvertRow(DType::kF32, x.row<float>(r), DType::kBF16, bf16_row.get(), in_features());
      ConvertRow(DType::kBF16, bf16_row.get(), DType::kF32, rounded + r * in_features(), in_features());
    }
  }

  absl::Status MultiplySlices(ThreadPool& pool, const float* rounded, const TensorView& out, Range columns,
                              bool accumulate) const {
    const std::int64_t num_columns = columns.end - columns.begin;
    const Partition slices(num_columns, Partition::CeilDiv(num_columns, kSliceColumns), 1);
    FirstError error;
    pool.ParallelFor(slices.num_pieces(), [&](std::int64_t i) {
      const std::int64_t count = slices[i].end - slices[i].begin;
      const Range slice = {columns.begin + slices[i].begin, columns.begin + slices[i].end};
      const TensorView slice_out = out.columns(slices[i].begin, count);
      auto widened = hwy::AllocateAligned<float>(static_cast<std::size_t>(count * in_features()));
      if (widened == nullptr) {
        error.Update(absl::ResourceExhaustedError("no memory for the operands of a product"));
        return;
      }
      ConvertRow(DType::kBF16, values_.get() + slice.begin * in_features(), DType::kF32, widened.get(),
                 count * in_features());
      const bool adds = ApplyBias(slice_out, slice, accumulate);
      error.Update(Sgemm(out.dim(0), count, in_features(), 1.0f, {rounded, in_features()},
                         {widened.get(), in_features(), true}, adds ? 1.0f : 0.0f, slice_out.as<float>(),
                         std::max(out.stride(0), out.dim(1))));
    });
    return error.status();
  }

  const hwy::AlignedFreeUniquePtr<std::uint16_t[]> values_;  // [out_features, in_features] bf16
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackBf16Weight(const ConstTensorView& weight,
                                                          const ConstTensorView& bias,
                                                          absl::Span<const std::int64_t> cuts) {
  return Bf16Weight::Create(weight, bias, cuts);
}

}  // namespace scd::cpu
