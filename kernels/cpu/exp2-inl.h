// Powers of two for softmax and silu. Included once for each target.
#if defined(SCD_KERNELS_CPU_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_EXP2_INL_H_
#undef SCD_KERNELS_CPU_EXP2_INL_H_
#else
#define SCD_KERNELS_CPU_EXP2_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

inline constexpr float kLog2E = 1.44269504f;

// 2^x within 1.5e-7 relative; x below -126 gives 2^-126. NaN gives anything. For x up to 126.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Exp2UpTo126(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  x = hn::Max(x, hn::Set(d, -126.0f));
  // A float of this size has no fraction: adding it rounds, and leaves the integer in the lowest bits.
  const V large = hn::Set(d, 12582912.0f);
  const V shifted = hn::Add(x, large);
  const V r = hn::Sub(x, hn::Sub(shifted, large));
  // 2^r on [-0.5, 0.5]: the polynomial of degree 5 whose largest relative error is least, 7.5e-8.
  V power = hn::Set(d, 1.327647197931638e-3f);
  power = hn::MulAdd(power, r, hn::Set(d, 9.675541334206542e-3f));
  power = hn::MulAdd(power, r, hn::Set(d, 5.550713273542824e-2f));
  power = hn::MulAdd(power, r, hn::Set(d, 2.402211972384870e-1f));
  power = hn::MulAdd(power, r, hn::Set(d, 6.931469670647334e-1f));
  power = hn::MulAdd(power, r, hn::Set(d, 1.0000000716546822f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, power), exponent));
}

// The same for any x; above 126 it gives 2^126.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  return Exp2UpTo126(d, hwy::HWY_NAMESPACE::Min(x, hwy::HWY_NAMESPACE::Set(d, 126.0f)));
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_EXP2_INL_H_
