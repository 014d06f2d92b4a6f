// Vectors of KV pages from and to f32. Included once for each target.
#if defined(SCD_KERNELS_CPU_KV_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCD_KERNELS_CPU_KV_VECTOR_INL_H_
#undef SCD_KERNELS_CPU_KV_VECTOR_INL_H_
#else
#define SCD_KERNELS_CPU_KV_VECTOR_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/widen-inl.h"
#include "kernels/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

// dst[count] = src, times *scale for i8.
HWY_INLINE void LoadKv(const float* src, const float* /*scale*/, std::int64_t count, float* dst) {
  std::memcpy(dst, src, static_cast<std::size_t>(count) * sizeof(float));
}

template <typename T>
HWY_INLINE void LoadKv(const T* HWY_RESTRICT src, const float* scale, std::int64_t count,
                       float* HWY_RESTRICT dst) {
  namespace hn = hwy::HWY_NAMESPACE;
  const WideFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float factor = scale == nullptr ? 1.0f : *scale;
  const auto factors = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(LoadWide(src + i), factors), d, dst + i);
  for (; i < count; ++i) dst[i] = Widen(src[i]) * factor;
}

// The other way round; rounding as Backend::WriteKv says. `scale` is written for i8 only.
HWY_INLINE void StoreKv(const float* src, std::int64_t count, float* dst, float* /*scale*/) {
  std::memcpy(dst, src, static_cast<std::size_t>(count) * sizeof(float));
}

HWY_INLINE void StoreKv(const float* HWY_RESTRICT src, std::int64_t count, std::uint16_t* HWY_RESTRICT dst,
                        float* /*scale*/) {
  namespace hn = hwy::HWY_NAMESPACE;
  const WideFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(RoundToHalves(hn::LoadU(d, src + i)), WideHalves(), dst + i);
  }
  for (; i < count; ++i) dst[i] = FloatToBf16(src[i]);
}

HWY_INLINE void StoreKv(const float* HWY_RESTRICT src, std::int64_t count, std::int8_t* HWY_RESTRICT dst,
                        float* HWY_RESTRICT scale) {
  namespace hn = hwy::HWY_NAMESPACE;
  const WideFloats d;
  const hn::Rebind<std::int8_t, WideFloats> bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto magnitudes = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    magnitudes = hn::Max(magnitudes, hn::Abs(hn::LoadU(d, src + i)));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, magnitudes));
  for (; i < count; ++i) largest = std::max(largest, std::abs(src[i]));
  *scale = largest / 127.0f;
  const float steps = largest > 0.0f ? 127.0f / largest : 0.0f;
  for (i = 0; i + lanes <= count; i += lanes) {
    const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, src + i), hn::Set(d, steps)));
    hn::StoreU(hn::DemoteTo(bytes, whole), bytes, dst + i);
  }
  for (; i < count; ++i) {
    dst[i] = static_cast<std::int8_t>(std::min(127.0f, std::max(-127.0f, std::nearbyint(src[i] * steps))));
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SCD_KERNELS_CPU_KV_VECTOR_INL_H_
