// CUDA's products on tensor cores for the CPU: tiles of 16 x 16 x 16, bf16 times bf16 into f32. Each thread
// of a warp has eight numbers of a tile; which ones is nobody's business, and not what a GPU has. A product
// waits for the whole warp; loads and stores do not, so that a missing __syncwarp shows. Pointers and strides
// that a GPU does not take end the process.
#ifndef SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_MMA_H_
#define SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_MMA_H_

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/support/cuda_shim/grid.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int kM, int kN, int kK, typename T, typename Layout = void>
struct fragment {
  static_assert(kM == 16 && kN == 16 && kK == 16);
  static constexpr int num_elements = 8;
  T x[num_elements];
};

namespace shim {

inline constexpr unsigned int kSide = 16;

// Number i of a thread's: the element of the tile, counted by rows.
inline unsigned int ElementOf(unsigned int lane, int i) {
  return (lane * 8 + static_cast<unsigned int>(i)) * 37 % (kSide * kSide);
}

// Address of element (row, column) of a tile that lies by rows or columns.
inline std::size_t Offset(unsigned int element, unsigned int stride, bool by_rows) {
  const unsigned int row = element / kSide;
  const unsigned int column = element % kSide;
  return by_rows ? std::size_t{row} * stride + column : std::size_t{column} * stride + row;
}

template <typename T>
void CheckAddress(const T* tile, unsigned int stride) {
  if (reinterpret_cast<std::uintptr_t>(tile) % 32 != 0)
    scd::cuda_shim::Fail("a tile that is not aligned to 32 bytes");
  if (stride * sizeof(T) % 16 != 0) scd::cuda_shim::Fail("rows of a tile that are not whole 16 bytes apart");
}

}  // namespace shim

template <typename Use, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, __nv_bfloat16, Layout>& to, const __nv_bfloat16* from,
                      unsigned int stride) {
  shim::CheckAddress(from, stride);
  for (int i = 0; i < to.num_elements; ++i) {
    const unsigned int element = shim::ElementOf(scd::cuda_shim::ThisLane(), i);
    to.x[i] = from[shim::Offset(element, stride, std::is_same_v<Layout, row_major>)];
  }
}

inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to, const float* from,
                             unsigned int stride, layout_t layout) {
  shim::CheckAddress(from, stride);
  for (int i = 0; i < to.num_elements; ++i) {
    const unsigned int element = shim::ElementOf(scd::cuda_shim::ThisLane(), i);
    to.x[i] = from[shim::Offset(element, stride, layout == mem_row_major)];
  }
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& from,
                              unsigned int stride, layout_t layout) {
  shim::CheckAddress(to, stride);
  for (int i = 0; i < from.num_elements; ++i) {
    const unsigned int element = shim::ElementOf(scd::cuda_shim::ThisLane(), i);
    to[shim::Offset(element, stride, layout == mem_row_major)] = from.x[i];
  }
}

template <typename Fragment, typename T>
void fill_fragment(Fragment& to, T value) {
  for (auto& x : to.x) x = value;
}

template <typename ALayout, typename BLayout>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d,
              const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, ALayout>& a,
              const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, BLayout>& b,
              const fragment<accumulator, 16, 16, 16, float>& c) {
  constexpr std::size_t kHalf = sizeof(a.x);
  std::byte mine[2 * kHalf];
  std::memcpy(mine, a.x, kHalf);
  std::memcpy(mine + kHalf, b.x, kHalf);
  const std::byte* const all = scd::cuda_shim::ShareInWarp(mine, sizeof(mine));
  float left[shim::kSide * shim::kSide];
  float right[shim::kSide * shim::kSide];
  for (unsigned int lane = 0; lane < 32; ++lane) {
    __nv_bfloat16 numbers[16];
    std::memcpy(numbers, all + lane * sizeof(mine), sizeof(mine));
    for (int i = 0; i < 8; ++i) {
      left[shim::ElementOf(lane, i)] = __bfloat162float(numbers[i]);
      right[shim::ElementOf(lane, i)] = __bfloat162float(numbers[8 + i]);
    }
  }
  for (int i = 0; i < d.num_elements; ++i) {
    const unsigned int element = shim::ElementOf(scd::cuda_shim::ThisLane(), i);
    float sum = c.x[i];
    for (unsigned int k = 0; k < shim::kSide; ++k) {
      sum += left[element / shim::kSide * shim::kSide + k] * right[k * shim::kSide + element % shim::kSide];
    }
    d.x[i] = sum;
  }
}

}  // namespace nvcuda::wmma

#endif  // SCD_TESTS_SUPPORT_CUDA_SHIM_INCLUDE_MMA_H_
