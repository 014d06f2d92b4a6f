#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/rms_norm.cuh"
#include "kernels/cuda/rope.cuh"

namespace scd::cuda {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kNormRowsOfABlock = 8;
constexpr std::int64_t kShortRow = 512;     // elements that one warp norms
constexpr std::int64_t kMostShares = 4096;  // of one row

// A block for each row and kBlockThreads columns; few blocks of a very long row go over it several times.
dim3 RowBlocks(std::int64_t rows, std::int64_t dim) {
  const std::int64_t shares = (dim + kBlockThreads - 1) / kBlockThreads;
  return dim3(static_cast<unsigned int>(rows),
              static_cast<unsigned int>(shares < kMostShares ? shares : kMostShares));
}

}  // namespace

cudaError_t LaunchRmsNorm(cudaStream_t stream, Rows<const float> x, const float* weight, float epsilon,
                          Rows<float> out, std::int64_t rows, std::int64_t dim) {
  if (rows == 0) return cudaSuccess;
  const bool is_short = dim <= kShortRow;
  const std::int64_t each = is_short ? kNormRowsOfABlock : 1;
  const dim3 block = is_short ? dim3(kWarpThreads, kNormRowsOfABlock) : dim3(kWideRowThreads);
  return Launch(RmsNormKernel, dim3(static_cast<unsigned int>((rows + each - 1) / each)), block, 0, stream, x,
                weight, epsilon, out, rows, dim);
}

cudaError_t LaunchRope(cudaStream_t stream, Rows<float> x, const std::int32_t* positions, RopeRows table,
                       std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, BadIndexWord* bad) {
  if (tokens == 0) return cudaSuccess;
  return Launch(RopeKernel, dim3(static_cast<unsigned int>(tokens)), dim3(kBlockThreads), 0, stream, x,
                positions, table, heads, head_dim, bad);
}

cudaError_t LaunchSwiGlu(cudaStream_t stream, Rows<const float> gate, Rows<const float> up, Rows<float> out,
                         std::int64_t rows, std::int64_t dim) {
  if (rows == 0) return cudaSuccess;
  return Launch(SwiGluKernel, RowBlocks(rows, dim), dim3(kBlockThreads), 0, stream, gate, up, out, dim);
}

cudaError_t LaunchEmbed(cudaStream_t stream, AnyRows table, std::int64_t vocabulary, const std::int32_t* ids,
                        Rows<float> out, std::int64_t tokens, std::int64_t dim, BadIndexWord* bad) {
  if (tokens == 0) return cudaSuccess;
  return Launch(EmbedKernel, RowBlocks(tokens, dim), dim3(kBlockThreads), 0, stream, table, vocabulary, ids,
                out, dim, bad);
}

cudaError_t LaunchScaleAndBias(cudaStream_t stream, Rows<float> out, float scale, const float* bias,
                               std::int64_t rows, std::int64_t dim) {
  if (rows == 0 || dim == 0) return cudaSuccess;
  return Launch(ScaleAndBiasKernel, RowBlocks(rows, dim), dim3(kBlockThreads), 0, stream, out, scale, bias,
                dim);
}

cudaError_t LaunchConvert(cudaStream_t stream, AnyRowsOut dst, AnyRows src, std::int64_t rows,
                          std::int64_t dim, std::int64_t padded_dim) {
  if (rows == 0 || padded_dim == 0) return cudaSuccess;
  return Launch(ConvertKernel, RowBlocks(rows, padded_dim), dim3(kBlockThreads), 0, stream, dst, src, dim,
                padded_dim);
}

cudaError_t CheckKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, ConvertKernel);
}

}  // namespace scd::cuda
