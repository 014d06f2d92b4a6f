// A tensor in a backend's memory, owned.
#ifndef SCD_COMMON_MODEL_DEVICE_TENSOR_H_
#define SCD_COMMON_MODEL_DEVICE_TENSOR_H_

#include <memory>

#include "kernels/backend.h"

namespace scd {

struct DeviceTensor {
  std::unique_ptr<Buffer> memory;
  ConstTensorView view;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_DEVICE_TENSOR_H_
