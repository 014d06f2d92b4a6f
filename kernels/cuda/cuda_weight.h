// Weights of the cuda backend in device memory.
#ifndef SCD_KERNELS_CUDA_CUDA_WEIGHT_H_
#define SCD_KERNELS_CUDA_CUDA_WEIGHT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/quantized.h"

namespace scd::cuda {

class CudaWeight final : public PackedWeight {
 public:
  // Numbers as `product_dtype`, f32 or bf16, in which products are computed. The operands were checked.
  static absl::StatusOr<std::unique_ptr<CudaWeight>> PackDense(DeviceMemory& memory,
                                                               const ConstTensorView& weight,
                                                               const ConstTensorView& bias,
                                                               absl::Span<const std::int64_t> cuts,
                                                               DType product_dtype);
  // Integers as they are; products of many rows are of numbers of product_dtype.
  static absl::StatusOr<std::unique_ptr<CudaWeight>> PackQuantized(DeviceMemory& memory,
                                                                   const QuantizedMatrix& weight,
                                                                   const ConstTensorView& bias,
                                                                   absl::Span<const std::int64_t> cuts,
                                                                   DType product_dtype);

  std::int64_t in_features() const override { return in_features_; }
  std::int64_t out_features() const override { return out_features_; }
  absl::Span<const std::int64_t> cuts() const override { return cuts_; }
  std::int64_t size_bytes() const override;

  DType product_dtype() const { return product_dtype_; }
  // [out_features] in device memory; nullptr: none.
  const float* bias() const { return bias_ == nullptr ? nullptr : static_cast<const float*>(bias_->data()); }
  bool quantized() const { return scales_ != nullptr; }
  // Dense: row `row`; rows are stride() elements apart, in_features() rounded up so that rows are aligned,
  // with zeros behind.
  const void* dense_row(std::int64_t row) const;
  std::int64_t stride() const { return stride_; }
  // Quantised.
  QuantizedRows quantized_rows() const;

 private:
  CudaWeight(std::int64_t out_features, std::int64_t in_features, absl::Span<const std::int64_t> cuts,
             DType product_dtype)
      : out_features_(out_features),
        in_features_(in_features),
        cuts_(cuts.begin(), cuts.end()),
        product_dtype_(product_dtype) {}

  absl::Status PutBias(DeviceMemory& memory, const ConstTensorView& bias);

  const std::int64_t out_features_;
  const std::int64_t in_features_;
  const std::vector<std::int64_t> cuts_;
  const DType product_dtype_;
  std::unique_ptr<CudaBuffer> bias_;
  std::unique_ptr<CudaBuffer> values_;
  std::int64_t stride_ = 0;  // dense only
  int bits_ = 0;             // quantised only, as the rest
  DType group_dtype_ = DType::kF32;
  std::unique_ptr<CudaBuffer> scales_;
  std::unique_ptr<CudaBuffer> minimums_;  // nullptr: all 0
};

// Elements of a row of `count` numbers of this dtype that is padded to 16 bytes.
std::int64_t PaddedCount(std::int64_t count, DType dtype);

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_CUDA_WEIGHT_H_
