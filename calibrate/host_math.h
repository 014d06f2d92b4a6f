// f32 products in host memory for fits and training, on a Backend::Gemm with an own stream. For one thread at
// a time; workers that run side by side have one each.
#ifndef SCD_CALIBRATE_HOST_MATH_H_
#define SCD_CALIBRATE_HOST_MATH_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/tensor_view.h"

namespace scd {

class HostMath {
 public:
  // num_threads: of this object's backend; 0: one for each core.
  static absl::StatusOr<std::unique_ptr<HostMath>> Create(int num_threads);

  // c[m, n] = alpha op(a) op(b) + beta c; all f32 on the host.
  absl::Status Gemm(ConstTensorView a, ConstTensorView b, TensorView c, const GemmOptions& options = {});

 private:
  HostMath(std::unique_ptr<Backend> backend, std::unique_ptr<Stream> stream);

  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Stream> stream_;
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
