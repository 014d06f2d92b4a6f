// CUDA's runtime for the CPU: what kernels and the cuda backend use of it, with the same names and meanings.
// Device memory is host memory that the host may not touch, and queued work runs when somebody waits for it,
// not before: a copy from pinned memory that is overwritten too early, or a result that is read without
// waiting, shows.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_RUNTIME_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_RUNTIME_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tests/support/cuda_shim/grid.h"
#include "tests/support/cuda_shim/vector_types.h"

// --- language ---
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(threads)
// One block runs at a time.
#define __shared__ static
#define threadIdx (::scd::cuda_shim::indices->thread)
#define blockIdx (::scd::cuda_shim::indices->block)
#define blockDim (::scd::cuda_shim::indices->block_dim)
#define gridDim (::scd::cuda_shim::indices->grid_dim)

inline void __syncthreads() {
  ::scd::cuda_shim::SyncThreads();
}

// Of whole warps.
inline void __syncwarp() {
  ::scd::cuda_shim::ShareInWarp(nullptr, 0);
}

inline float __shfl_xor_sync(unsigned int /*mask*/, float value, int lane_mask) {
  const unsigned int from = ::scd::cuda_shim::ThisLane() ^ static_cast<unsigned int>(lane_mask);
  return std::bit_cast<float>(::scd::cuda_shim::Shuffle(std::bit_cast<std::uint32_t>(value), from));
}

inline unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected,
                                    unsigned long long desired) {
  const unsigned long long old = *address;
  if (old == expected) *address = desired;
  return old;
}

inline int atomicAdd(int* address, int value) {
  const int old = *address;
  *address += value;
  return old;
}

// Products and sums that are rounded by themselves.
inline float __fmul_rn(float a, float b) {
  return a * b;
}

inline float __fadd_rn(float a, float b) {
  return a + b;
}

inline unsigned int __float_as_uint(float value) {
  return std::bit_cast<unsigned int>(value);
}

inline float __uint_as_float(unsigned int bits) {
  return std::bit_cast<float>(bits);
}

// --- errors ---
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

// --- device ---
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major;
  int minor;
  int multiProcessorCount;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);

struct cudaFuncAttributes {
  int numRegs;
};
template <typename Function>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Function* /*kernel*/) {
  *attributes = {};
  return cudaSuccess;
}

// --- memory ---
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);

// --- order ---
struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
inline constexpr unsigned int cudaStreamNonBlocking = 1;
inline constexpr unsigned int cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

// --- copies ---
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
cudaError_t cudaMemcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_CUDA_RUNTIME_H_
