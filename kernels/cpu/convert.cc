#include "kernels/cpu/convert.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void Bf16RowToF32(const std::uint16_t* HWY_RESTRICT src, float* HWY_RESTRICT dst, std::int64_t count) {
  const WideFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadWide(src + i), d, dst + i);
  for (; i < count; ++i) dst[i] = Bf16ToFloat(src[i]);
}

void F32RowToBf16(const float* HWY_RESTRICT src, std::uint16_t* HWY_RESTRICT dst, std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(WideFloats()));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(RoundToHalves(LoadWide(src + i)), WideHalves(), dst + i);
  for (; i < count; ++i) dst[i] = FloatToBf16(src[i]);
}

void F16RowToF32(const std::uint16_t* HWY_RESTRICT src, float* HWY_RESTRICT dst, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = F16ToFloat(src[i]);
}

void F32RowToF16(const float* HWY_RESTRICT src, std::uint16_t* HWY_RESTRICT dst, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = FloatToF16(src[i]);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {
namespace {

HWY_EXPORT(Bf16RowToF32);
HWY_EXPORT(F32RowToBf16);
HWY_EXPORT(F16RowToF32);
HWY_EXPORT(F32RowToF16);

void ToF32(DType src_dtype, const void* src, float* dst, std::int64_t count) {
  if (src_dtype == DType::kBF16) {
    HWY_DYNAMIC_DISPATCH(Bf16RowToF32)(static_cast<const std::uint16_t*>(src), dst, count);
  } else {
    HWY_DYNAMIC_DISPATCH(F16RowToF32)(static_cast<const std::uint16_t*>(src), dst, count);
  }
}

void FromF32(const float* src, DType dst_dtype, void* dst, std::int64_t count) {
  if (dst_dtype == DType::kBF16) {
    HWY_DYNAMIC_DISPATCH(F32RowToBf16)(src, static_cast<std::uint16_t*>(dst), count);
  } else {
    HWY_DYNAMIC_DISPATCH(F32RowToF16)(src, static_cast<std::uint16_t*>(dst), count);
  }
}

}  // namespace

void ConvertRow(DType src_dtype, const void* src, DType dst_dtype, void* dst, std::int64_t count) {
  if (src_dtype == dst_dtype) {
    std::memcpy(dst, src, static_cast<std::size_t>(count) * DTypeBytes(src_dtype));
  } else if (dst_dtype == DType::kF32) {
    ToF32(src_dtype, src, static_cast<float*>(dst), count);
  } else if (src_dtype == DType::kF32) {
    FromF32(static_cast<const float*>(src), dst_dtype, dst, count);
  } else {
    constexpr std::int64_t kChunk = 256;
    float chunk[kChunk];
    for (std::int64_t begin = 0; begin < count; begin += kChunk) {
      const std::int64_t part = std::min(kChunk, count - begin);
      ToF32(src_dtype, static_cast<const std::uint16_t*>(src) + begin, chunk, part);
      FromF32(chunk, dst_dtype, static_cast<std::uint16_t*>(dst) + begin, part);
    }
  }
}

void ConvertRows(const ConstTensorView& src, const TensorView& dst, std::int64_t begin, std::int64_t end) {
  const auto src_bytes = static_cast<std::int64_t>(DTypeBytes(src.dtype()));
  const auto dst_bytes = static_cast<std::int64_t>(DTypeBytes(dst.dtype()));
  for (std::int64_t r = begin; r < end; ++r) {
    ConvertRow(src.dtype(), src.as<std::byte>() + r * src.stride(0) * src_bytes, dst.dtype(),
               dst.as<std::byte>() + r * dst.stride(0) * dst_bytes, src.dim(1));
  }
}

}  // namespace scd::cpu
#endif
