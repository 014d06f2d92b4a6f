#include <cmath>
#include <cstddef>

#include "kernels/cpu/pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/silu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V SiluOf(D d, V x) {
  const auto power = Exp2(d, hn::Mul(x, hn::Set(d, -kLog2E)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), power));
}

HWY_INLINE float SiluOf(float x) {
  return x / (1.0f + std::exp(-x));
}

void SwiGluRow(const float* gate, const float* up, float* out, std::int64_t dim) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= dim; i += lanes) {
    hn::StoreU(hn::Mul(SiluOf(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, out + i);
  }
  for (; i < dim; ++i) out[i] = SiluOf(gate[i]) * up[i];
}

void SiluRow(float* x, std::int64_t dim) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= dim; i += lanes) hn::StoreU(SiluOf(d, hn::LoadU(d, x + i)), d, x + i);
  for (; i < dim; ++i) x[i] = SiluOf(x[i]);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(SwiGluRow);
HWY_EXPORT(SiluRow);

void SwiGluRows(const ConstTensorView& gate, const ConstTensorView& up, const TensorView& out, Range rows) {
  const auto row_function = HWY_DYNAMIC_DISPATCH(SwiGluRow);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    row_function(gate.row<float>(r), up.row<float>(r), out.row<float>(r), gate.dim(1));
  }
}

void SiluRows(const TensorView& x, Range rows) {
  const auto row_function = HWY_DYNAMIC_DISPATCH(SiluRow);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) row_function(x.row<float>(r), x.dim(1));
}

}  // namespace scd::cpu
#endif
