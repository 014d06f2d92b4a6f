// One f32 product on the calling thread, by oneDNN.
#ifndef SCD_KERNELS_CPU_SGEMM_H_
#define SCD_KERNELS_CPU_SGEMM_H_

#include <cstdint>

#include "absl/status/status.h"

namespace scd::cpu {

// A row-major operand: elements and the distance of its rows.
struct SgemmOperand {
  const float* data;
  std::int64_t stride;
  bool transpose = false;
};

// c[m, n] = alpha * op(a)[m, k] op(b)[k, n] + beta * c. OpenMP is held to one thread while it runs: this
// backend divides products over its own threads.
absl::Status Sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, SgemmOperand a,
                   SgemmOperand b, float beta, float* c, std::int64_t c_stride);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_SGEMM_H_
