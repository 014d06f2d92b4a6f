// The packed weights of the cpu backend: one class for each way of multiplying.
#ifndef SCD_KERNELS_CPU_CPU_WEIGHT_H_
#define SCD_KERNELS_CPU_CPU_WEIGHT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hwy/aligned_allocator.h"
#include "kernels/backend.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/dtype.h"

namespace scd::cpu {

class CpuWeight : public PackedWeight {
 public:
  std::int64_t in_features() const final { return in_features_; }
  std::int64_t out_features() const final { return out_features_; }
  absl::Span<const std::int64_t> cuts() const final { return cuts_; }

  // out[rows, columns] (+)= x[rows, in_features] W^T + bias, `columns` of the result only, whose ends are 0,
  // out_features or cuts; operands were checked.
  virtual absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out,
                                Range columns, bool accumulate) const = 0;

  // [out_features], from that of column `begin` on; nullptr where there is none.
  const float* bias(std::int64_t begin = 0) const { return bias_ == nullptr ? nullptr : bias_.get() + begin; }
  // For an op that multiplies a tile of rows itself: W^T in f32 in panels of kPanelColumns columns,
  // [panels, in_features, kPanelColumns], zeros behind the last column. Made when it is first asked for and
  // kept; nullptr where there is no memory for it, or the layout does not give the numbers back.
  static constexpr std::int64_t kPanelColumns = 16;
  const float* Panels() const;
  // Whether products round x to bf16 first.
  virtual bool rounds_x() const { return false; }

 protected:
  CpuWeight(std::int64_t out_features, std::int64_t in_features, absl::Span<const std::int64_t> cuts)
      : out_features_(out_features), in_features_(in_features), cuts_(cuts.begin(), cuts.end()) {}

  // Row `row` of W as products see it; false where the layout does not give it back.
  virtual bool UnpackRow(std::int64_t /*row*/, float* /*out*/) const { return false; }

  // Takes a copy of `bias` [out_features] f32, which may be empty.
  absl::Status SetBias(const ConstTensorView& bias);
  // Puts the bias of `columns` into (or with accumulate adds it to) out [rows, columns], before a product.
  // Answers whether that product must add to out. Without a bias it leaves out as it is.
  [[nodiscard]] bool ApplyBias(const TensorView& out, Range columns, bool accumulate) const;

  // What W takes where it is kept in `dtype`.
  std::int64_t DenseBytes(DType dtype) const {
    return out_features_ * in_features_ * static_cast<std::int64_t>(DTypeBytes(dtype));
  }

 private:
  hwy::AlignedFreeUniquePtr<float[]> MakePanels() const;

  const std::int64_t out_features_;
  const std::int64_t in_features_;
  const std::vector<std::int64_t> cuts_;
  hwy::AlignedFreeUniquePtr<float[]> bias_;
  mutable std::once_flag panels_asked_for_;
  mutable hwy::AlignedFreeUniquePtr<float[]> panels_;
};

// Weight is [out, in] f32, f16 or bf16, bias [out] f32 or empty; these and the cuts were checked.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackF32Weight(const ConstTensorView& weight,
                                                         const ConstTensorView& bias,
                                                         absl::Span<const std::int64_t> cuts);

// For MathMode::kBF16 on a CPU without bf16 instructions: half the memory traffic of f32, the arithmetic in
// f32 on operands rounded to bf16.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackBf16Weight(const ConstTensorView& weight,
                                                          const ConstTensorView& bias,
                                                          absl::Span<const std::int64_t> cuts);

// In oneDNN's own layout, multiplied by its kernels: dtype kBF16 for a CPU with bf16 instructions,
// UNIMPLEMENTED on another; or kF32. num_slices: how many parts the columns between two cuts are divided
// into, for as many threads.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackOneDnnWeight(const ConstTensorView& weight,
                                                            const ConstTensorView& bias,
                                                            absl::Span<const std::int64_t> cuts, DType dtype,
                                                            int num_slices);

// `weight` and the rest were checked. dtype: what products of many rows are in, as of PackOneDnnWeight, with
// UNIMPLEMENTED where this CPU has none in bf16.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackQuantizedWeight(const QuantizedMatrix& weight,
                                                               const ConstTensorView& bias,
                                                               absl::Span<const std::int64_t> cuts,
                                                               DType dtype);

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_CPU_WEIGHT_H_
