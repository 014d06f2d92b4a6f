// Sums of products of small integers, four to a lane of 32 bits: what instruction sets do in ways of their
// own. Included once for each target.
//
// Each struct multiplies words of four weights with words of four activations (integers of 8 bits) and adds
// them up: Start, then Add for each step of a group (at most kGroupSteps), then Total for the sum of each
// lane. Nibbles takes weights in 0..15; Bytes takes integers in -127..127. `values_sum` is the sum of all
// activations that the group's steps will bring.
#if defined(SCD_KERNELS_CPU_INT8_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_INT8_DOT_INL_H_
#undef SCD_KERNELS_CPU_INT8_DOT_INL_H_
#else
#define SCD_KERNELS_CPU_INT8_DOT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

// HWY_AVX3 here includes VNNI: a caller sends a CPU that has the one without the other to HWY_AVX2.
#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace scd::cpu::HWY_NAMESPACE {

using DotWords = hwy::HWY_NAMESPACE::CappedTag<std::int32_t, 16>;
using DotWord = hwy::HWY_NAMESPACE::Vec<DotWords>;

#if HWY_TARGET == HWY_AVX3

struct Nibbles {
  using Sums = DotWord;
  static HWY_INLINE Sums Start(std::int32_t /*values_sum*/) { return hwy::HWY_NAMESPACE::Zero(DotWords()); }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    return Sums{_mm512_dpbusd_epi32(sums.raw, w.raw, x.raw)};
  }
  static HWY_INLINE DotWord Total(Sums sums) { return sums; }
};

// The instruction takes one operand without sign: weights are moved up by 128 and the sums start below 0 by
// what that will add to them.
struct Bytes {
  using Sums = DotWord;
  static HWY_INLINE Sums Start(std::int32_t values_sum) {
    return hwy::HWY_NAMESPACE::Set(DotWords(), -128 * values_sum);
  }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    const DotWord moved = hwy::HWY_NAMESPACE::Xor(
        w, hwy::HWY_NAMESPACE::Set(DotWords(), static_cast<std::int32_t>(0x80808080u)));
    return Sums{_mm512_dpbusd_epi32(sums.raw, moved.raw, x.raw)};
  }
  static HWY_INLINE DotWord Total(Sums sums) { return sums; }
};

#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4

using DotPairs = hwy::HWY_NAMESPACE::Repartition<std::int16_t, DotWords>;

#if HWY_TARGET == HWY_AVX2
HWY_INLINE hwy::HWY_NAMESPACE::Vec<DotPairs> MultiplyPairs(DotWord u8, DotWord i8) {
  return hwy::HWY_NAMESPACE::Vec<DotPairs>{_mm256_maddubs_epi16(u8.raw, i8.raw)};
}
HWY_INLINE DotWord AddPairs(hwy::HWY_NAMESPACE::Vec<DotPairs> pairs) {
  return DotWord{_mm256_madd_epi16(pairs.raw, _mm256_set1_epi16(1))};
}
HWY_INLINE DotWord Magnitudes(DotWord x) {
  return DotWord{_mm256_abs_epi8(x.raw)};
}
HWY_INLINE DotWord WithSignsOf(DotWord w, DotWord x) {
  return DotWord{_mm256_sign_epi8(w.raw, x.raw)};
}
#else
HWY_INLINE hwy::HWY_NAMESPACE::Vec<DotPairs> MultiplyPairs(DotWord u8, DotWord i8) {
  return hwy::HWY_NAMESPACE::Vec<DotPairs>{_mm_maddubs_epi16(u8.raw, i8.raw)};
}
HWY_INLINE DotWord AddPairs(hwy::HWY_NAMESPACE::Vec<DotPairs> pairs) {
  return DotWord{_mm_madd_epi16(pairs.raw, _mm_set1_epi16(1))};
}
HWY_INLINE DotWord Magnitudes(DotWord x) {
  return DotWord{_mm_abs_epi8(x.raw)};
}
HWY_INLINE DotWord WithSignsOf(DotWord w, DotWord x) {
  return DotWord{_mm_sign_epi8(w.raw, x.raw)};
}
#endif

// Sums of pairs stay in 16 bits: 8 steps of 2 * 15 * 128 are below 2^15.
struct Nibbles {
  using Sums = hwy::HWY_NAMESPACE::Vec<DotPairs>;
  static HWY_INLINE Sums Start(std::int32_t /*values_sum*/) { return hwy::HWY_NAMESPACE::Zero(DotPairs()); }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    return hwy::HWY_NAMESPACE::Add(sums, MultiplyPairs(w, x));
  }
  static HWY_INLINE DotWord Total(Sums sums) { return AddPairs(sums); }
};

// A pair of products fits into 16 bits, 2 * 127 * 128 being below 2^15, but no sum of pairs does.
struct Bytes {
  using Sums = DotWord;
  static HWY_INLINE Sums Start(std::int32_t /*values_sum*/) { return hwy::HWY_NAMESPACE::Zero(DotWords()); }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    return hwy::HWY_NAMESPACE::Add(sums, AddPairs(MultiplyPairs(Magnitudes(x), WithSignsOf(w, x))));
  }
  static HWY_INLINE DotWord Total(Sums sums) { return sums; }
};

#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64

// The sums of the lower and the upper two lanes apart.
struct Nibbles {
  struct Sums {
    int16x8_t lower;
    int16x8_t upper;
  };
  static HWY_INLINE Sums Start(std::int32_t /*values_sum*/) { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    const int8x16_t w8 = vreinterpretq_s8_s32(w.raw);
    const int8x16_t x8 = vreinterpretq_s8_s32(x.raw);
    return {vmlal_s8(sums.lower, vget_low_s8(w8), vget_low_s8(x8)), vmlal_high_s8(sums.upper, w8, x8)};
  }
  static HWY_INLINE DotWord Total(Sums sums) {
    return DotWord(vpaddq_s32(vpaddlq_s16(sums.lower), vpaddlq_s16(sums.upper)));
  }
};

struct Bytes {
  struct Sums {
    int32x4_t lower;
    int32x4_t upper;
  };
  static HWY_INLINE Sums Start(std::int32_t /*values_sum*/) { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    const int8x16_t w8 = vreinterpretq_s8_s32(w.raw);
    const int8x16_t x8 = vreinterpretq_s8_s32(x.raw);
    return {vpadalq_s16(sums.lower, vmull_s8(vget_low_s8(w8), vget_low_s8(x8))),
            vpadalq_s16(sums.upper, vmull_high_s8(w8, x8))};
  }
  static HWY_INLINE DotWord Total(Sums sums) { return DotWord(vpaddq_s32(sums.lower, sums.upper)); }
};

#else

template <int kIndex>
HWY_INLINE DotWord SignedByte(DotWord v) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kIndex>(v));
}

struct Bytes {
  using Sums = DotWord;
  static HWY_INLINE Sums Start(std::int32_t /*values_sum*/) { return hwy::HWY_NAMESPACE::Zero(DotWords()); }
  static HWY_INLINE Sums Add(Sums sums, DotWord w, DotWord x) {
    namespace hn = hwy::HWY_NAMESPACE;
    sums = hn::Add(sums, hn::Mul(SignedByte<0>(w), SignedByte<0>(x)));
    sums = hn::Add(sums, hn::Mul(SignedByte<1>(w), SignedByte<1>(x)));
    sums = hn::Add(sums, hn::Mul(SignedByte<2>(w), SignedByte<2>(x)));
    return hn::Add(sums, hn::Mul(SignedByte<3>(w), SignedByte<3>(x)));
  }
  static HWY_INLINE DotWord Total(Sums sums) { return sums; }
};

using Nibbles = Bytes;

#endif

}  // namespace scd::cpu::HWY_NAMESPACE
#if HWY_TARGET == HWY_AVX3
HWY_POP_ATTRIBUTES
#else
HWY_AFTER_NAMESPACE();
#endif

#endif  // SCD_KERNELS_CPU_INT8_DOT_INL_H_
