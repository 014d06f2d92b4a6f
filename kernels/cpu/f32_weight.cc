// Weights in f32, row-major as they came: oneDNN for many rows, our own kernel for few.
#include <algorithm>
#include <utility>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/dense_product.h"
#include "kernels/cpu/few_rows_product.h"
#include "kernels/cpu/partition.h"
#include "kernels/status_macros.h"

namespace scd::cpu {
namespace {

class F32Weight final : public CpuWeight {
 public:
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Create(const ConstTensorView& weight,
                                                           const ConstTensorView& bias,
                                                           absl::Span<const std::int64_t> cuts) {
    auto values = hwy::AllocateAligned<float>(static_cast<std::size_t>(weight.num_elements()));
    if (values == nullptr) return absl::ResourceExhaustedError("no memory for a packed weight");
    ConvertRows(weight, TensorView(values.get(), DType::kF32, weight.shape()), 0, weight.dim(0));
    auto packed = std::unique_ptr<F32Weight>(new F32Weight(weight, cuts, std::move(values)));
    SCD_RETURN_IF_ERROR(packed->SetBias(bias));
    return packed;
  }

  std::int64_t size_bytes() const override { return DenseBytes(DType::kF32); }

  absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out, Range columns,
                        bool accumulate) const override {
    const float* values = values_.get() + columns.begin * in_features();
    const std::int64_t num_columns = columns.end - columns.begin;
    if (x.dim(0) > kFewRows) {
      const float beta = ApplyBias(out, columns, accumulate) ? 1.0f : 0.0f;
      const ConstTensorView weight(values, DType::kF32, {num_columns, in_features()});
      return DenseProduct(pool, x, weight, out, {.transpose_b = true, .beta = beta});
    }
    const FewRowsProduct product{x.as<float>(),       x.stride(0),     x.dim(0),      in_features(),
                                 bias(columns.begin), out.as<float>(), out.stride(0), accumulate};
    const Partition pieces = FewRowsPieces(pool.num_threads(), num_columns, in_features());
    pool.ParallelFor(pieces.num_pieces(), [&](std::int64_t i) {
      MultiplyFewRowsF32(product, values, pieces[i].begin, pieces[i].end);
    });
    return absl::OkStatus();
  }

 private:
  bool UnpackRow(std::int64_t row, float* out) const override {
    std::copy_n(values_.get() + row * in_features(), in_features(), out);
    return true;
  }

  F32Weight(const ConstTensorView& weight, absl::Span<const std::int64_t> cuts,
            hwy::AlignedFreeUniquePtr<float[]> values)
      : CpuWeight(weight.dim(0), weight.dim(1), cuts), values_(std::move(values)) {}

  const hwy::AlignedFreeUniquePtr<float[]> values_;  // [out_features, in_features]
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackF32Weight(const ConstTensorView& weight,
                                                         const ConstTensorView& bias,
                                                         absl::Span<const std::int64_t> cuts) {
  return F32Weight::Create(weight, bias, cuts);
}

}  // namespace scd::cpu
