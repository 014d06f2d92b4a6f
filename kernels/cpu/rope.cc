#include "kernels/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/rope-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

void RopeToken(float* token, std::int64_t heads, std::int64_t half, const float* cos, const float* sin) {
  RopeHeads(token, heads, half, cos, sin);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(RopeToken);

void RopeTokens(const TensorView& x, const std::int32_t* positions, const RopeTable& table, Range tokens) {
  const auto token_function = HWY_DYNAMIC_DISPATCH(RopeToken);
  for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
    token_function(x.row<float>(t), x.dim(1), x.dim(2) / 2, table.cos.row<float>(positions[t]),
                   table.sin.row<float>(positions[t]));
  }
}

}  // namespace scd::cpu
#endif
