// Reading and writing single elements of any float dtype.
#ifndef SCD_KERNELS_REFERENCE_ELEMENT_H_
#define SCD_KERNELS_REFERENCE_ELEMENT_H_

#include "kernels/tensor_view.h"

namespace scd::reference {

// Element `offset` (counted from data()) of an f32, f16 or bf16 tensor.
inline float Load(const ConstTensorView& view, std::int64_t offset) {
  switch (view.dtype()) {
    case DType::kF16:
      return F16ToFloat(view.as<std::uint16_t>()[offset]);
    case DType::kBF16:
      return Bf16ToFloat(view.as<std::uint16_t>()[offset]);
    default:
      return view.as<float>()[offset];
  }
}

inline void Store(const TensorView& view, std::int64_t offset, float value) {
  switch (view.dtype()) {
    case DType::kF16:
      view.as<std::uint16_t>()[offset] = FloatToF16(value);
      return;
    case DType::kBF16:
      view.as<std::uint16_t>()[offset] = FloatToBf16(value);
      return;
    default:
      view.as<float>()[offset] = value;
  }
}

}  // namespace scd::reference

#endif  // SCD_KERNELS_REFERENCE_ELEMENT_H_
