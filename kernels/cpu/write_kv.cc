#include "kernels/cpu/write_kv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/write_kv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as it holds per-target code.
#include "kernels/cpu/kv_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {

template <typename T>
void WriteRowsAs(const ConstTensorView& x, const std::int32_t* positions, Range tokens,
                 const KvSlots& slots) {
  const std::int64_t head_dim = slots.head_dim();
  for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
    const std::int64_t p = positions[t];
    for (std::int64_t h = 0; h < slots.kv_heads(); ++h) {
      StoreKv(x.row<float>(t) + h * head_dim, head_dim, slots.Vector<T>(h, p), slots.Scale(h, p));
    }
  }
}

void WriteRows(const ConstTensorView& x, const std::int32_t* positions, Range tokens, const KvSlots& slots) {
  switch (slots.dtype()) {
    case DType::kBF16:
      return WriteRowsAs<std::uint16_t>(x, positions, tokens, slots);
    case DType::kI8:
      return WriteRowsAs<std::int8_t>(x, positions, tokens, slots);
    default:
      return WriteRowsAs<float>(x, positions, tokens, slots);
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(WriteRows);

void WriteKvRows(const ConstTensorView& x, const std::int32_t* positions, Range tokens,
                 const KvSlots& slots) {
  HWY_DYNAMIC_DISPATCH(WriteRows)(x, positions, tokens, slots);
}

}  // namespace scd::cpu
#endif
