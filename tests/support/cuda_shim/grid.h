// Runs a kernel's body for every thread of a grid, block by block. The threads of a block take turns: one
// runs until it waits at a barrier or for its warp, or ends. Who is next, and which block, is the order of
// launch or is drawn at random (thread by thread, or so that warps run far ahead of others), which must not
// matter to a kernel without races.
//
// A block in which threads wait for each other in vain, or what a warp does together that one of its threads
// will never come to, ends the process with a message.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_GRID_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_GRID_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "tests/support/cuda_shim/vector_types.h"

namespace scd::cuda_shim {

struct Indices {
  uint3 thread;
  uint3 block;
  dim3 block_dim;
  dim3 grid_dim;
};

// Of the thread whose turn it is.
extern Indices* indices;
extern std::byte* dynamic_shared;

// One grid runs at a time; the caller sees to that.
void RunGrid(dim3 grid, dim3 block, std::size_t shared_bytes, absl::FunctionRef<void()> body);

// For bodies.
void SyncThreads();
// All threads of the warp give as many bytes, at most kMostShared; returns what all gave, lane by lane, which
// stays until the warp's next call but one.
inline constexpr std::size_t kMostShared = 32;
const std::byte* ShareInWarp(const void* mine, std::size_t bytes);
std::uint32_t Shuffle(std::uint32_t value, unsigned int from_lane);
unsigned int ThisLane();
// Ends the process with a message.
[[noreturn]] void Fail(const char* what);

// 0: in order; else blocks and threads are shuffled, differently for each seed.
void SetOrder(std::uint64_t seed);

}  // namespace scd::cuda_shim

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_GRID_H_
