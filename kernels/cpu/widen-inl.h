// Numbers of the narrow formats (bf16 as std::uint16_t, integers as std::int8_t) as floats, and floats
// rounded to bf16. Included once for each target.
#if defined(SCD_KERNELS_CPU_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_WIDEN_INL_H_
#undef SCD_KERNELS_CPU_WIDEN_INL_H_
#else
#define SCD_KERNELS_CPU_WIDEN_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

using WideFloats = hwy::HWY_NAMESPACE::ScalableTag<float>;
using WideVec = hwy::HWY_NAMESPACE::Vec<WideFloats>;
using WideHalves = hwy::HWY_NAMESPACE::Rebind<std::uint16_t, WideFloats>;

HWY_INLINE WideVec LoadWide(const float* w) {
  return hwy::HWY_NAMESPACE::LoadU(WideFloats(), w);
}

HWY_INLINE WideVec LoadWide(const std::uint16_t* w) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<WideFloats> words;
  return hn::BitCast(WideFloats(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(WideHalves(), w))));
}

HWY_INLINE WideVec LoadWide(const std::int8_t* w) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::int8_t, WideFloats> bytes;
  const hn::RebindToSigned<WideFloats> words;
  return hn::ConvertTo(WideFloats(), hn::PromoteTo(words, hn::LoadU(bytes, w)));
}

HWY_INLINE float Widen(float w) {
  return w;
}
HWY_INLINE float Widen(std::uint16_t w) {
  return Bf16ToFloat(w);
}
HWY_INLINE float Widen(std::int8_t w) {
  return static_cast<float>(w);
}

// As FloatToBf16 rounds.
HWY_INLINE hwy::HWY_NAMESPACE::Vec<WideHalves> RoundToHalves(WideVec value) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<WideFloats> words;
  const auto bits = hn::BitCast(words, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(words, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), odd));
  const auto quiet = hn::Or(high, hn::Set(words, 0x40u));
  const auto result = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, rounded);
  return hn::TruncateTo(WideHalves(), result);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_WIDEN_INL_H_
