// Pages of one sequence in any of their dtypes, for tests of the KV cache's ops.
#ifndef SCD_TESTS_KERNELS_KV_PARITY_H_
#define SCD_TESTS_KERNELS_KV_PARITY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/parity.h"

namespace scd::testing {

inline constexpr DType kPageDTypes[] = {DType::kF32, DType::kBF16, DType::kI8};

struct RigPages {
  RigTensor k, v, k_scales, v_scales, table;
  PagedKv kv;
};

// Enough pages for `tokens` positions, handed out in shuffled order, with pages of nobody between them. What
// was never written is NaN, or for i8 has a scale of NaN.
inline RigPages MakePages(BackendRig& rig, DType dtype, std::int64_t tokens, std::int64_t kv_heads,
                          std::int64_t page_tokens, std::int64_t head_dim) {
  const std::int64_t used = (tokens + page_tokens - 1) / page_tokens;
  std::vector<std::int32_t> table(static_cast<std::size_t>(used) + 2);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(7));
  table.resize(static_cast<std::size_t>(used));
  const Shape shape = {used + 2, kv_heads, page_tokens, head_dim};
  const Shape scales_shape = {used + 2, kv_heads, page_tokens};
  const auto nothing = [](const Shape& s) {
    return std::vector<float>(static_cast<std::size_t>(s.num_elements()), NAN);
  };
  const bool bytes = dtype == DType::kI8;
  RigPages pages;
  pages.k = bytes ? rig.Make(shape, 0, dtype) : rig.Put(shape, nothing(shape), 0, dtype);
  pages.v = bytes ? rig.Make(shape, 0, dtype) : rig.Put(shape, nothing(shape), 0, dtype);
  pages.k_scales = rig.Put(scales_shape, nothing(scales_shape));
  pages.v_scales = rig.Put(scales_shape, nothing(scales_shape));
  pages.table = rig.PutIndices(table);
  pages.kv = {.k_pages = pages.k.view,
              .v_pages = pages.v.view,
              .block_table = pages.table.view,
              .k_scales = bytes ? pages.k_scales.view : TensorView(),
              .v_scales = bytes ? pages.v_scales.view : TensorView()};
  return pages;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_KERNELS_KV_PARITY_H_
