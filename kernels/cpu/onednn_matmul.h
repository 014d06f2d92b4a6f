// The packed matrix product of oneDNN for one slice of weight columns.
#ifndef SCD_KERNELS_CPU_ONEDNN_MATMUL_H_
#define SCD_KERNELS_CPU_ONEDNN_MATMUL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "kernels/cpu/onednn_products.h"
#include "kernels/dtype.h"

namespace scd::cpu {

// Immutable but for its cache of products; Multiply may be called from several threads at once.
class OneDnnMatMul {
 public:
  // values: [columns, depth] bf16 or f32, contiguous, copied. UNIMPLEMENTED where this CPU has no such
  // product.
  static absl::StatusOr<std::unique_ptr<OneDnnMatMul>> Create(const void* values, DType dtype,
                                                              std::int64_t columns, std::int64_t depth);

  // out[rows, columns] (+)= x[rows, depth] values^T; x in the dtype of the values, contiguous; out in f32
  // with rows out_stride apart.
  absl::Status Multiply(const void* x, std::int64_t rows, float* out, std::int64_t out_stride,
                        bool accumulate) const {
    return products_.Multiply(x, rows, weights_, columns_, out, out_stride, accumulate);
  }

 private:
  OneDnnMatMul(DType dtype, std::int64_t columns, std::int64_t depth)
      : columns_(columns), products_(dtype, depth) {}

  const std::int64_t columns_;
  const OneDnnProducts products_;
  dnnl::memory weights_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ONEDNN_MATMUL_H_
