// Divides a pointwise op over the threads of a pool.
#ifndef SCD_KERNELS_CPU_ROWS_H_
#define SCD_KERNELS_CPU_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/partition.h"
#include "kernels/cpu/thread_pool.h"

namespace scd::cpu {

// Calls task(Range) for pieces of [0, rows), side by side where the rows of `width` elements are enough work
// for it.
template <typename Task>
void ForEachRowRange(ThreadPool& pool, std::int64_t rows, std::int64_t width, const Task& task) {
  constexpr std::int64_t kMinPieceElements = 1 << 14;
  const std::int64_t worthwhile = std::max<std::int64_t>(1, rows * width / kMinPieceElements);
  const Partition pieces(rows, std::min<std::int64_t>(worthwhile, pool.num_threads()), 1);
  pool.ParallelFor(pieces.num_pieces(), [&](std::int64_t i) { task(pieces[i]); });
}

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ROWS_H_
