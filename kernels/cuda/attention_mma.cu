#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/launch.h"

namespace scd::cuda {

cudaError_t LaunchMmaAttention(cudaStream_t stream, const AttentionLaunch& launch) {
  const int columns = MmaColumns(launch.head_dim);
  const auto kernel = columns <= 4   ? AttendMmaKernel<4>
                      : columns <= 8 ? AttendMmaKernel<8>
                                     : AttendMmaKernel<kMaxHeadDim / kMmaSide>;
  const cudaError_t error =
      Launch(kernel, AttentionGrid(launch, kMmaItems), dim3(kEight, kMmaThreads / kEight),
             MmaBytes(launch.head_dim), stream, launch);
  return error == cudaSuccess ? LaunchAttentionMerge(stream, launch) : error;
}

}  // namespace scd::cuda
