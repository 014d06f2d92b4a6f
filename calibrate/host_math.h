// f32 products in host memory for fits and training, on a Backend::Gemm with an own stream; large ones on a
// GPU, where there is one. For one thread at a time; workers that run side by side have one each.
#ifndef SCD_CALIBRATE_HOST_MATH_H_
#define SCD_CALIBRATE_HOST_MATH_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibrate/device_products.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/tensor_view.h"

namespace scd {

// A GPU that products may run on.
struct MathDevice {
  Backend* backend = nullptr;  // none: all products run on the CPU
  // Arithmetic for each byte that is copied there and back from which on a product of Gemm goes there. Some
  // 10 GB/s of a copy from memory that is not pinned against some 500 GFLOP/s of a server's cores.
  double least_flops_per_byte = 50.0;
};

// The GPU's backend for products where `options` name one; null where the models run on the CPU. Products are
// f32 without TF32 whatever options.math.
absl::StatusOr<std::unique_ptr<Backend>> CreateMathBackend(BackendOptions options);

class HostMath {
 public:
  // num_threads: of this object's CPU backend; 0: one for each core. device.backend outlives this.
  static absl::StatusOr<std::unique_ptr<HostMath>> Create(int num_threads, const MathDevice& device = {});

  // c[m, n] = alpha op(a) op(b) + beta c; all f32 on the host.
  absl::Status Gemm(ConstTensorView a, ConstTensorView b, TensorView c, const GemmOptions& options = {});

  // Null where all products run on the CPU.
  DeviceProducts* device() { return device_.get(); }

 private:
  HostMath(std::unique_ptr<Backend> backend, std::unique_ptr<Stream> stream,
           std::unique_ptr<DeviceProducts> device, double least_flops_per_byte);

  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<DeviceProducts> device_;
  const double least_flops_per_byte_;
};

// Views of row-major f32 memory on the host.
inline ConstTensorView MatrixView(const float* data, std::int64_t rows, std::int64_t columns) {
  return ConstTensorView(data, DType::kF32, Shape{rows, columns});
}
inline TensorView MatrixView(float* data, std::int64_t rows, std::int64_t columns) {
  return TensorView(data, DType::kF32, Shape{rows, columns});
}

}  // namespace scd

#endif  // SCD_CALIBRATE_HOST_MATH_H_
