// Tensor views as launchers take them.
#ifndef SCD_KERNELS_CUDA_VIEW_ROWS_H_
#define SCD_KERNELS_CUDA_VIEW_ROWS_H_

#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/rope_table.h"
#include "kernels/tensor_view.h"

namespace scd::cuda {

inline Rows<float> RowsOf(const TensorView& view) {
  return {view.as<float>(), view.stride(0)};
}

inline Rows<const float> RowsOf(const ConstTensorView& view) {
  return {view.as<float>(), view.stride(0)};
}

inline AnyRows AnyRowsOf(const ConstTensorView& view) {
  return {view.data(), view.dtype(), view.stride(0)};
}

inline AnyRowsOut AnyRowsOutOf(const TensorView& view) {
  return {view.data(), view.dtype(), view.stride(0)};
}

inline RopeRows RopeRowsOf(const RopeTable& table) {
  return {RowsOf(table.cos), RowsOf(table.sin), table.cos.dim(0)};
}

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_VIEW_ROWS_H_
