// The one place where products are handed to a library, which is cuBLASLt; other builds put another source
// file behind it.
#ifndef SCD_KERNELS_CUDA_GEMM_H_
#define SCD_KERNELS_CUDA_GEMM_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace scd::cuda {

// c[m, n] = alpha * op(a)[m, k] op(b)[k, n] + beta * c, rows of all three in memory order. a and b are both
// f32, with products in f32 (no TF32), or both bf16; sums are in f32. m, n and k are at least 1. With beta 0
// the old c is not read.
struct GemmProblem {
  DType dtype = DType::kF32;  // of a and b
  bool transpose_a = false;   // a is stored [k, m]
  bool transpose_b = false;   // b is stored [n, k]
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const void* a = nullptr;
  std::int64_t a_stride = 0;  // elements from row to row, as for b and c
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  float alpha = 1.0f;
  float beta = 0.0f;
};

// Usable from several threads at once.
class GemmLibrary {
 public:
  static absl::StatusOr<std::unique_ptr<GemmLibrary>> Create();
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // Queues the product; the library may use `workspace` (device memory, aligned to 256 bytes) for it.
  absl::Status Multiply(const GemmProblem& problem, void* workspace, std::size_t workspace_bytes,
                        cudaStream_t stream);

  // Name and version.
  std::string Describe() const;

 private:
  struct State;
  explicit GemmLibrary(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_GEMM_H_
