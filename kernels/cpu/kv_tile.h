// A stretch of positions of one KV head, and where its vectors lie in the pages.
#ifndef SCD_KERNELS_CPU_KV_TILE_H_
#define SCD_KERNELS_CPU_KV_TILE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/paged_kv.h"

namespace scd::cpu {

class KvTile {
 public:
  // Positions [begin, end). kv must outlive the tile.
  KvTile(const PagedKv& kv, std::int64_t kv_head, std::int64_t begin, std::int64_t end)
      : kv_(kv), kv_head_(kv_head), begin_(begin), end_(end) {}

  std::int64_t begin() const { return begin_; }
  std::int64_t size() const { return end_ - begin_; }

  // Calls visit(k, v, offset, count) for the first `size` positions, one page after the other: `count`
  // vectors from position begin() + offset, at k and at v, [count, head_dim] contiguous.
  template <typename Visitor>
  void ForEachRun(std::int64_t size, const Visitor& visit) const {
    const std::int64_t page_tokens = kv_.k_pages.dim(2);
    const std::int64_t head_dim = kv_.k_pages.dim(3);
    const std::int64_t end = begin_ + size;
    for (std::int64_t p = begin_; p < end;) {
      const std::int64_t slot = p % page_tokens;
      const std::int64_t count = std::min(end - p, page_tokens - slot);
      const std::int64_t page = kv_.block_table.as<std::int32_t>()[p / page_tokens];
      const std::int64_t offset = (kv_head_ * page_tokens + slot) * head_dim;
      visit(kv_.k_pages.row<float>(page) + offset, kv_.v_pages.row<float>(page) + offset, p - begin_, count);
      p += count;
    }
  }

 private:
  const PagedKv& kv_;
  std::int64_t kv_head_;
  std::int64_t begin_;
  std::int64_t end_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_KV_TILE_H_
