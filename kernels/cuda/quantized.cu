#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantized.cuh"
#include "kernels/cuda/quantized.h"

namespace scd::cuda {
namespace {

constexpr int kColumnsOfABlock = 4;
constexpr int kDequantizeThreads = 128;

template <int kBits>
cudaError_t Product(cudaStream_t stream, Rows<const float> x, int rows, const QuantizedRows& weight,
                    std::int64_t begin, std::int64_t columns, const float* bias, bool accumulate,
                    Rows<float> out) {
  const auto kernel =
      rows == 1 ? QuantizedProductKernel<kBits, 1> : QuantizedProductKernel<kBits, kMostFewRows>;
  const dim3 blocks(static_cast<unsigned int>((columns + kColumnsOfABlock - 1) / kColumnsOfABlock));
  return Launch(kernel, blocks, dim3(kWarpThreads, kColumnsOfABlock), 0, stream, x, rows, weight, begin,
                columns, bias, accumulate, out);
}

}  // namespace

cudaError_t LaunchQuantizedProduct(cudaStream_t stream, Rows<const float> x, std::int64_t rows,
                                   const QuantizedRows& weight, std::int64_t begin, std::int64_t columns,
                                   const float* bias, bool accumulate, Rows<float> out) {
  if (rows == 0) return cudaSuccess;
  const auto product = weight.bits == 4 ? Product<4> : Product<8>;
  return product(stream, x, static_cast<int>(rows), weight, begin, columns, bias, accumulate, out);
}

cudaError_t LaunchDequantize(cudaStream_t stream, const QuantizedRows& weight, std::int64_t begin,
                             std::int64_t count, AnyRowsOut dst) {
  if (count == 0) return cudaSuccess;
  const auto kernel = weight.bits == 4 ? DequantizeKernel<4> : DequantizeKernel<8>;
  const std::int64_t words = weight.in_features * weight.bits / 32;
  const dim3 blocks(static_cast<unsigned int>(count),
                    static_cast<unsigned int>((words + kDequantizeThreads - 1) / kDequantizeThreads));
  return Launch(kernel, blocks, dim3(kDequantizeThreads), 0, stream, weight, begin, dst);
}

}  // namespace scd::cuda
