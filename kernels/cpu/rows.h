// Divides the work of an op over the threads of a pool.
#ifndef SCD_KERNELS_CPU_ROWS_H_
#define SCD_KERNELS_CPU_ROWS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "hwy/aligned_allocator.h"
#include "kernels/cpu/first_error.h"
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

// Memory of one runner. An error says that there is none for `purpose`.
struct Scratch {
  std::size_t floats;
  const char* purpose;
};

// Calls task(i, float* scratch) for each i in [0, count), in about that order, and answers the first error.
// As many runners as said take tasks until none is left, each with scratch of its own, which is aligned and
// has no initial value.
template <typename Task>
absl::Status RunWithScratch(ThreadPool& pool, std::int64_t runners, std::int64_t count, Scratch scratch,
                            const Task& task) {
  std::atomic<std::int64_t> next{0};
  FirstError error;
  pool.ParallelFor(runners, [&](std::int64_t) {
    const auto memory = hwy::AllocateAligned<float>(scratch.floats);
    if (memory == nullptr) {
      error.Update(absl::ResourceExhaustedError(absl::StrCat("no memory for ", scratch.purpose)));
      return;
    }
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      error.Update(task(i, memory.get()));
    }
  });
  return error.status();
}

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_ROWS_H_
