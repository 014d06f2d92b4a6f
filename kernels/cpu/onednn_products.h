// Products of oneDNN that were compiled for a shape, made as shapes come and kept.
#ifndef SCD_KERNELS_CPU_ONEDNN_PRODUCTS_H_
#define SCD_KERNELS_CPU_ONEDNN_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "hwy/aligned_allocator.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/dtype.h"
#include "kernels/tensor_view.h"

namespace scd::cpu {

// Whether oneDNN multiplies bf16 with instructions of this CPU (AVX512_BF16 or AMX).
bool OneDnnHasBf16();

absl::Status FromOneDnnError(const dnnl::error& error);

// Memory for `count` elements; nullptr where there is none.
hwy::AlignedFreeUniquePtr<std::byte[]> AllocateElements(DType dtype, std::int64_t count);

// A copy of rows in another dtype.
struct ConvertedRows {
  hwy::AlignedFreeUniquePtr<std::byte[]> memory;
  TensorView view;
};

// x [rows, depth], all of it; RESOURCE_EXHAUSTED where the memory is not there.
absl::StatusOr<ConvertedRows> ConvertToOperand(ThreadPool& pool, const ConstTensorView& x, DType dtype);

// Rows cut into blocks so that a few dozen sizes cover every number of rows: blocks of 256, the rest into a
// multiple of 16 and what remains.
std::vector<Range> OneDnnRowBlocks(std::int64_t rows);

// Weights and activations are of one dtype (kF32 or kBF16) and depth, results are f32. Multiply may be called
// from several threads at once.
class OneDnnProducts {
 public:
  OneDnnProducts(DType dtype, std::int64_t depth);

  const dnnl::engine& engine() const { return engine_; }
  dnnl::memory::data_type dtype() const { return dtype_; }

  // UNIMPLEMENTED where the library has no product with weights in plain order on this CPU.
  absl::Status CheckPlain() const;

  // With a contiguous result. Throws dnnl::error, as the library does, and also where all that it has is its
  // slow reference.
  dnnl::matmul::primitive_desc DescribeFast(std::int64_t rows, std::int64_t columns,
                                            const dnnl::memory::desc& weights) const;

  // values [depth, columns] with rows `stride` apart, as weights; not copied.
  absl::StatusOr<dnnl::memory> View(void* values, std::int64_t columns, std::int64_t stride) const;

  // out[rows, columns] (+)= x[rows, depth] weights[depth, columns]; x contiguous, rows of out out_stride
  // apart. All weights with one number of columns must have one layout.
  absl::Status Multiply(const void* x, std::int64_t rows, const dnnl::memory& weights, std::int64_t columns,
                        float* out, std::int64_t out_stride, bool accumulate) const;

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // rows, columns

  struct Made {
    dnnl::matmul primitive;
    dnnl::memory::desc scratchpad;
  };

  // As DescribeFast, but with whatever the library has.
  dnnl::matmul::primitive_desc Describe(std::int64_t rows, std::int64_t columns,
                                        const dnnl::memory::desc& weights) const;
  Made FindOrMake(const Key& key, const dnnl::memory::desc& weights) const;
  // Multiply with a contiguous result.
  absl::Status MultiplyContiguous(const void* x, std::int64_t rows, const dnnl::memory& weights,
                                  std::int64_t columns, float* out) const;

  const dnnl::memory::data_type dtype_;
  const std::int64_t depth_;
  const dnnl::engine engine_;
  mutable std::mutex mutex_;
  mutable std::map<Key, Made> made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ONEDNN_PRODUCTS_H_
