// The packed weights of the cpu backend: one class for each way of multiplying.
#ifndef SCD_KERNELS_CPU_CPU_WEIGHT_H_
#define SCD_KERNELS_CPU_CPU_WEIGHT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hwy/aligned_allocator.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace scd::cpu {

class CpuWeight : public PackedWeight {
 public:
  std::int64_t in_features() const final { return in_features_; }
  std::int64_t out_features() const final { return out_features_; }

  // out[rows, out_features] (+)= x[rows, in_features] W^T + bias; operands were checked.
  virtual absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out,
                                bool accumulate) const = 0;

 protected:
  CpuWeight(std::int64_t out_features, std::int64_t in_features)
      : out_features_(out_features), in_features_(in_features) {}

  // Takes a copy of `bias` [out_features] f32, which may be empty.
  absl::Status SetBias(const ConstTensorView& bias);
  // nullptr where there is none.
  const float* bias() const { return bias_.get(); }
  // Puts the bias into (or with accumulate adds it to) columns [begin, end) of out, where a product that adds
  // to out follows. Without a bias it does nothing.
  void ApplyBias(const TensorView& out, std::int64_t begin, std::int64_t end, bool accumulate) const;

 private:
  const std::int64_t out_features_;
  const std::int64_t in_features_;
  hwy::AlignedFreeUniquePtr<float[]> bias_;
};

// Weight is [out, in] f32, f16 or bf16, bias [out] f32 or empty; both were checked.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackF32Weight(const ConstTensorView& weight,
                                                         const ConstTensorView& bias);

// For MathMode::kBF16 on a CPU without bf16 instructions: half the memory traffic of f32, the arithmetic in
// f32 on operands rounded to bf16.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackBf16Weight(const ConstTensorView& weight,
                                                          const ConstTensorView& bias);

// In oneDNN's own layout, multiplied by its kernels: dtype kBF16 for a CPU with bf16 instructions,
// UNIMPLEMENTED on another; or kF32. num_slices: how many parts the columns are cut into, for as many
// threads.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackOneDnnWeight(const ConstTensorView& weight,
                                                            const ConstTensorView& bias, DType dtype,
                                                            int num_slices);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_CPU_WEIGHT_H_
