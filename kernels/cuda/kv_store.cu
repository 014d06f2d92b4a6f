#include "kernels/cuda/kv_store.cuh"
#include "kernels/cuda/kv_store.h"
#include "kernels/cuda/launch.h"

namespace scd::cuda {

cudaError_t LaunchStoreVectors(cudaStream_t stream, const StoreVectors& source, const PagesOut& pages,
                               BadIndexWord* bad) {
  constexpr int kVectorsOfABlock = 4;
  const std::int64_t vectors = source.tokens * pages.kv_heads;
  if (vectors == 0) return cudaSuccess;
  const dim3 blocks(static_cast<unsigned int>((vectors + kVectorsOfABlock - 1) / kVectorsOfABlock));
  return Launch(StoreVectorsKernel, blocks, dim3(kWarpThreads, kVectorsOfABlock), 0, stream, source, pages,
                bad);
}

}  // namespace scd::cuda
