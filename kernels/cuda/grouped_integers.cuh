// Packing and unpacking of grouped integers (grouped_integers.h), to the bit what the host does: products are
// rounded before anything is added to them.
#ifndef SCD_KERNELS_CUDA_GROUPED_INTEGERS_CUH_
#define SCD_KERNELS_CUDA_GROUPED_INTEGERS_CUH_

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/grouped_integers.h"

namespace scd::cuda {

inline constexpr float kLargestF16 = 65504.0f;

// What a launch needs to know of the layout.
struct IntegerGranules {
  std::int64_t columns;
  std::int64_t rows;  // of a granule
  std::int64_t row_bytes;
  std::int64_t header_bytes;
  std::int32_t bits;
  bool by_column;

  __device__ std::int64_t GroupOf(std::int64_t column) const {
    return by_column ? column : column / kIntegerGroup;
  }
  __device__ std::int64_t Granule(std::int64_t row) const {
    return row / rows * (header_bytes + rows * row_bytes);
  }
};

// f16 at any address.
__device__ inline float ReadF16(const std::uint8_t* bytes) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bytes[0] | bytes[1] << 8)));
}

__device__ inline void WriteF16(std::uint8_t* bytes, float value) {
  const unsigned short bits = __half_as_ushort(__float2half_rn(value));
  bytes[0] = static_cast<std::uint8_t>(bits & 0xffu);
  bytes[1] = static_cast<std::uint8_t>(bits >> 8);
}

__device__ inline float RoundedToF16(float value) {
  return __half2float(__float2half_rn(fminf(fmaxf(value, -kLargestF16), kLargestF16)));
}

// blockIdx.x is the row of out, threads have its columns.
__global__ void UnpackCodesKernel(const std::uint8_t* bytes, IntegerGranules granules, std::int64_t first_row,
                                  AnyRowsOut out) {
  const std::int64_t row = first_row + blockIdx.x;
  const std::uint8_t* scales = bytes + granules.Granule(row);
  const std::uint8_t* minima = scales + granules.header_bytes / 2;
  const std::uint8_t* numbers = scales + granules.header_bytes + row % granules.rows * granules.row_bytes;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
       c < granules.columns; c += static_cast<std::int64_t>(gridDim.y) * blockDim.x) {
    const std::int64_t group = granules.GroupOf(c);
    const unsigned int integer = granules.bits == 8 ? numbers[c] : (numbers[c / 2] >> (4 * (c % 2))) & 0xfu;
    const float scaled = __fmul_rn(static_cast<float>(integer), ReadF16(scales + 2 * group));
    StoreNumber(out.data, out.dtype, blockIdx.x * out.stride + c,
                __fadd_rn(ReadF16(minima + 2 * group), scaled));
  }
}

// blockIdx.x is the granule. Its threads first make the header, a group each, and read it again as the host
// does.
__global__ void PackCodesKernel(Rows<const float> from, IntegerGranules granules, std::int64_t num_groups,
                                std::uint8_t* bytes, std::int64_t num_rows) {
  const std::int64_t first_row = blockIdx.x * granules.rows;
  const std::int64_t rows = num_rows - first_row < granules.rows ? num_rows - first_row : granules.rows;
  const float* data = from.data + first_row * from.stride;
  std::uint8_t* const scales = bytes + granules.Granule(first_row);
  std::uint8_t* const minima = scales + granules.header_bytes / 2;
  const float levels = static_cast<float>((1 << granules.bits) - 1);
  for (std::int64_t group = threadIdx.x; group < num_groups; group += blockDim.x) {
    const std::int64_t column = granules.by_column ? group : group * kIntegerGroup;
    const std::int64_t left = granules.columns - column;
    const std::int64_t count = granules.by_column ? rows : left < kIntegerGroup ? left : kIntegerGroup;
    const std::int64_t step = granules.by_column ? from.stride : 1;
    float least = data[column];
    float most = least;
    for (std::int64_t i = 1; i < count; ++i) {
      least = fminf(least, data[column + i * step]);
      most = fmaxf(most, data[column + i * step]);
    }
    const float minimum = RoundedToF16(least);
    WriteF16(scales + 2 * group, RoundedToF16((most - minimum) / levels));
    WriteF16(minima + 2 * group, minimum);
  }
  __syncthreads();
  const auto number = [&](std::int64_t row, std::int64_t column) -> unsigned int {
    if (column >= granules.columns) return 0;
    const std::int64_t group = granules.GroupOf(column);
    const float scale = ReadF16(scales + 2 * group);
    if (!(scale > 0.0f)) return 0;
    const float value = (data[row * from.stride + column] - ReadF16(minima + 2 * group)) / scale;
    return static_cast<unsigned int>(fminf(fmaxf(rintf(value), 0.0f), levels));
  };
  std::uint8_t* const numbers = scales + granules.header_bytes;
  for (std::int64_t i = threadIdx.x; i < rows * granules.row_bytes; i += blockDim.x) {
    const std::int64_t row = i / granules.row_bytes;
    const std::int64_t byte = i % granules.row_bytes;
    numbers[i] = static_cast<std::uint8_t>(
        granules.bits == 8 ? number(row, byte) : number(row, 2 * byte) | number(row, 2 * byte + 1) << 4);
  }
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_GROUPED_INTEGERS_CUH_
