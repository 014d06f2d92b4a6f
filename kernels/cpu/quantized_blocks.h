// The layout that quantised weights are multiplied from: blocks of 16 columns, in each group of 32 inputs
// after group, so that a product reads one stream of memory and each lane of a vector sums up a column of its
// own. The same on every machine.
//
// A group of a block has kBlockColumns words of 32 bits for each step of 4 inputs, one word for a column: a
// byte an input with 8 bits; with 4 bits a step's numbers are the lower halves of the bytes and the next
// step's the upper ones. Its scales are kBlockColumns numbers, followed by as many minimums where the matrix
// has them.
#ifndef SCD_KERNELS_CPU_QUANTIZED_BLOCKS_H_
#define SCD_KERNELS_CPU_QUANTIZED_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "hwy/aligned_allocator.h"
#include "hwy/base.h"
#include "kernels/cpu/partition.h"
#include "kernels/quantized_matrix.h"

namespace scd::cpu {

inline constexpr std::int64_t kBlockColumns = 16;
// Inputs in a word.
inline constexpr std::int64_t kStepInputs = 4;
inline constexpr std::int64_t kGroupSteps = kWeightGroup / kStepInputs;

// Immutable.
class QuantizedBlocks {
 public:
  // `matrix` and `cuts` were checked. No block reaches across a cut. RESOURCE_EXHAUSTED where the memory is
  // not there.
  static absl::StatusOr<QuantizedBlocks> Create(const QuantizedMatrix& matrix,
                                                absl::Span<const std::int64_t> cuts);

  int bits() const { return bits_; }
  bool has_minimums() const { return has_minimums_; }
  std::int64_t groups() const { return groups_; }
  std::int64_t size_bytes() const;

  // Blocks that `columns` (from cut to cut) consists of.
  Range BlocksOf(Range columns) const;
  // At most kBlockColumns; where there are fewer, the rest of the block is 0.
  Range ColumnsOf(std::int64_t block) const { return columns_[static_cast<std::size_t>(block)]; }

  std::int64_t words_of_group() const { return kBlockColumns * kGroupSteps * bits_ / 8; }
  std::int64_t scales_of_group() const { return has_minimums_ ? 2 * kBlockColumns : kBlockColumns; }
  const std::uint32_t* words(std::int64_t block) const {
    return words_.get() + block * groups_ * words_of_group();
  }
  // Where every scale and minimum has 16 bits they are kept in these, else in the wide ones; the other is
  // nullptr.
  const hwy::float16_t* half_scales(std::int64_t block) const { return ScalesOf(half_scales_, block); }
  const float* wide_scales(std::int64_t block) const { return ScalesOf(wide_scales_, block); }

 private:
  QuantizedBlocks() = default;

  template <typename T>
  const T* ScalesOf(const hwy::AlignedFreeUniquePtr<T[]>& scales, std::int64_t block) const {
    return scales == nullptr ? nullptr : scales.get() + block * groups_ * scales_of_group();
  }

  absl::Status AllocateFor(const QuantizedMatrix& matrix);
  void PutGroup(const QuantizedMatrix& matrix, std::int64_t block, std::int64_t lane, std::int64_t group);
  void PutScale(std::int64_t index, float scale);

  int bits_ = 8;
  bool has_minimums_ = false;
  std::int64_t groups_ = 0;
  std::vector<Range> columns_;
  hwy::AlignedFreeUniquePtr<std::uint32_t[]> words_;
  hwy::AlignedFreeUniquePtr<hwy::float16_t[]> half_scales_;
  hwy::AlignedFreeUniquePtr<float[]> wide_scales_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_QUANTIZED_BLOCKS_H_
