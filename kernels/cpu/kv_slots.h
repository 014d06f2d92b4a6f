// Where the vectors of K, or of V, of one sequence lie in its pages.
#ifndef SCD_KERNELS_CPU_KV_SLOTS_H_
#define SCD_KERNELS_CPU_KV_SLOTS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/partition.h"
#include "kernels/paged_kv.h"

namespace scd::cpu {

// Cheap to copy; the memory behind `kv` must outlive it. Elements are float, std::uint16_t (bf16) or
// std::int8_t, as dtype() says.
class KvSlots {
 public:
  KvSlots(const PagedKv& kv, KvPart part)
      : pages_(part == KvPart::kK ? kv.k_pages : kv.v_pages),
        scales_(part == KvPart::kK ? kv.k_scales : kv.v_scales),
        table_(kv.block_table.as<std::int32_t>()) {}

  DType dtype() const { return pages_.dtype(); }
  std::int64_t kv_heads() const { return pages_.dim(1); }
  std::int64_t page_tokens() const { return pages_.dim(2); }
  std::int64_t head_dim() const { return pages_.dim(3); }

  // The vector [head_dim] of a position; those of the following slots of its page lie behind it.
  template <typename T>
  T* Vector(std::int64_t head, std::int64_t position) const {
    return pages_.row<T>(Page(position)) + Slot(head, position) * head_dim();
  }
  // Its scale, of i8 pages; nullptr of others.
  float* Scale(std::int64_t head, std::int64_t position) const {
    return dtype() == DType::kI8 ? scales_.row<float>(Page(position)) + Slot(head, position) : nullptr;
  }

  // Calls visit(vectors, scales, offset, count) for the positions of a range, one page after the other:
  // `count` vectors from position positions.begin + offset, contiguous, and their scales.
  template <typename T, typename Visitor>
  void ForEachRun(std::int64_t head, Range positions, const Visitor& visit) const {
    for (std::int64_t p = positions.begin; p < positions.end;) {
      const std::int64_t count = std::min(positions.end - p, page_tokens() - p % page_tokens());
      visit(static_cast<const T*>(Vector<T>(head, p)), static_cast<const float*>(Scale(head, p)),
            p - positions.begin, count);
      p += count;
    }
  }

 private:
  std::int64_t Page(std::int64_t position) const { return table_[position / page_tokens()]; }
  std::int64_t Slot(std::int64_t head, std::int64_t position) const {
    return head * page_tokens() + position % page_tokens();
  }

  TensorView pages_;
  TensorView scales_;
  const std::int32_t* table_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_KV_SLOTS_H_
