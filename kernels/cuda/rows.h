// What launchers and kernels take in place of a tensor view: an address and how far apart rows are.
#ifndef SCD_KERNELS_CUDA_ROWS_H_
#define SCD_KERNELS_CUDA_ROWS_H_

#include <cstdint>

namespace scd::cuda {

// Elements of one row lie beside each other.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;  // elements from one row to the next
};

}  // namespace scd::cuda

#endif  // SCD_KERNELS_CUDA_ROWS_H_
