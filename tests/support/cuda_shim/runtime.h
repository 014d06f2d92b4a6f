// The shim's own side of the runtime: queueing, limits of launches, and what tests may change.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_RUNTIME_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/support/cuda_shim/operation_log.h"
#include "tests/support/cuda_shim/vector_types.h"

struct CUstream_st;

namespace scd::cuda_shim {

// Runs when somebody waits for the stream, after what was queued there before. It alone touches device memory
// then.
void Enqueue(CUstream_st* stream, std::function<void()> work, OpKind kind = OpKind::kKernel);

// What the least of our architectures allows.
bool CanLaunch(dim3 grid, dim3 block, std::size_t shared_bytes);

// --- for tests ---
// Begins a new log.
void StartLog();
// Ends it.
OperationLog TakeLog();

// Order of threads and blocks (grid.h) of what runs from now on.
void SetThreadOrder(std::uint64_t seed);
// How often device memory was allocated or freed so far. Where the environment says
// SCD_CUDA_SHIM_MOST_ALLOCATIONS, more allocations than that fail.
std::int64_t NumDeviceAllocations();
// 1, or 0 for a machine without a GPU.
void SetDeviceCount(int count);

}  // namespace scd::cuda_shim

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_RUNTIME_H_
