// The packed matrix product of oneDNN for one slice of weight columns: packing, and primitives made as shapes
// come.
#ifndef SCD_KERNELS_CPU_ONEDNN_MATMUL_H_
#define SCD_KERNELS_CPU_ONEDNN_MATMUL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "kernels/dtype.h"

namespace scd::cpu {

// Whether oneDNN multiplies bf16 with instructions of this CPU (AVX512_BF16 or AMX).
bool OneDnnHasBf16();

// Immutable but for its cache of primitives; Multiply may be called from several threads at once.
class OneDnnMatMul {
 public:
  // values: [columns, depth] bf16 or f32, contiguous, copied. UNIMPLEMENTED where this CPU has no such
  // product.
  static absl::StatusOr<std::unique_ptr<OneDnnMatMul>> Create(const void* values, DType dtype,
                                                              std::int64_t columns, std::int64_t depth);

  // out[rows, columns] (+)= x[rows, depth] values^T; x in the dtype of the values, contiguous; out in f32
  // with rows out_stride apart.
  absl::Status Multiply(const void* x, std::int64_t rows, float* out, std::int64_t out_stride,
                        bool accumulate) const;

 private:
  using PrimitiveKey = std::tuple<std::int64_t, std::int64_t, bool>;  // rows, out_stride, accumulate

  OneDnnMatMul(DType dtype, std::int64_t columns, std::int64_t depth)
      : dtype_(dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32),
        columns_(columns),
        depth_(depth),
        engine_(dnnl::engine::kind::cpu, 0) {}

  // Throws dnnl::error, as the library does.
  dnnl::matmul::primitive_desc Describe(std::int64_t rows, std::int64_t out_stride, bool accumulate,
                                        const dnnl::memory::desc& weights) const;
  dnnl::matmul FindOrMake(const PrimitiveKey& key, dnnl::memory::desc* scratchpad) const;

  struct Made {
    dnnl::matmul primitive;
    dnnl::memory::desc scratchpad;
  };

  const dnnl::memory::data_type dtype_;
  const std::int64_t columns_;
  const std::int64_t depth_;
  const dnnl::engine engine_;
  dnnl::memory weights_;
  mutable std::mutex mutex_;
  mutable std::map<PrimitiveKey, Made> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ONEDNN_MATMUL_H_
