// Shares a range of bytes out in pieces. A piece comes from the smallest gap that holds it; gaps that meet
// become one.
#ifndef SCD_KERNELS_CUDA_ARENA_H_
#define SCD_KERNELS_CUDA_ARENA_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace scd::cuda {

// Knows offsets alone, not the memory. For one thread at a time.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  // bytes: what is no multiple of kAlignment is left out.
  explicit Arena(std::size_t bytes);

  // Offset of a piece, a multiple of kAlignment; nullopt where no gap holds it. No piece is empty.
  std::optional<std::size_t> Take(std::size_t bytes);
  // `offset` came from Take and was not given back since.
  void Give(std::size_t offset);

  std::size_t free_bytes() const { return free_bytes_; }
  std::size_t largest_gap() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  void AddGap(std::size_t begin, std::size_t size);
  void RemoveGap(std::map<std::size_t, std::size_t>::iterator gap);

  std::map<std::size_t, std::size_t> gaps_;                // begin -> size, no two of which meet
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // the same as (size, begin)
  std::unordered_map<std::size_t, std::size_t> pieces_;    // begin -> size
  std::size_t free_bytes_ = 0;
};

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ARENA_H_
