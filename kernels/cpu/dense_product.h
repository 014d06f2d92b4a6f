// A general f32 product divided over the threads of a pool.
#ifndef SCD_KERNELS_CPU_DENSE_PRODUCT_H_
#define SCD_KERNELS_CPU_DENSE_PRODUCT_H_

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace scd::cpu {

// c = alpha * op(a) op(b) + beta * c as Backend::Gemm defines it; operands were checked.
absl::Status DenseProduct(ThreadPool& pool, const ConstTensorView& a, const ConstTensorView& b,
                          const TensorView& c, const GemmOptions& options);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_DENSE_PRODUCT_H_
