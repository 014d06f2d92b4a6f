#include "calibrate/host_math.h"

#include <algorithm>
#include <utility>

#include "kernels/checks.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Workspace of products, of each worker.
constexpr std::int64_t kMostScratchMib = 32;

// A multiplication and an addition count as two; every operand is copied once.
double FlopsPerByte(const ConstTensorView& a, const ConstTensorView& b, const TensorView& c,
                    const GemmOptions& options) {
  const double depth = static_cast<double>(a.dim(options.transpose_a ? 0 : 1));
  const double copies = options.beta == 0.0f ? 1.0 : 2.0;
  const double elements = static_cast<double>(a.num_elements() + b.num_elements()) +
                          copies * static_cast<double>(c.num_elements());
  return elements == 0 ? 0.0 : 2.0 * depth * static_cast<double>(c.num_elements()) / (4.0 * elements);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateMathBackend(BackendOptions options) {
  if (options.device != "cuda") return nullptr;
  options.math = MathMode::kF32;
  options.cuda.memory_mib = 0;  // leaves the models theirs
  options.cuda.scratch_mib = std::min(options.cuda.scratch_mib, kMostScratchMib);
  return CreateBackend(options);
}

HostMath::HostMath(std::unique_ptr<Backend> backend, std::unique_ptr<Stream> stream,
                   std::unique_ptr<DeviceProducts> device, double least_flops_per_byte)
    : backend_(std::move(backend)),
      stream_(std::move(stream)),
      device_(std::move(device)),
      least_flops_per_byte_(least_flops_per_byte) {}

absl::StatusOr<std::unique_ptr<HostMath>> HostMath::Create(int num_threads, const MathDevice& device) {
  SCD_ASSIGN_OR_RETURN(auto backend,
                       CreateBackend({.device = "cpu", .num_threads = num_threads, .math = MathMode::kF32}));
  SCD_ASSIGN_OR_RETURN(auto stream, backend->CreateStream());
  std::unique_ptr<DeviceProducts> products;
  if (device.backend != nullptr) {
    SCD_ASSIGN_OR_RETURN(products, DeviceProducts::Create(*device.backend));
  }
  return std::unique_ptr<HostMath>(
      new HostMath(std::move(backend), std::move(stream), std::move(products), device.least_flops_per_byte));
}

absl::Status HostMath::Gemm(ConstTensorView a, ConstTensorView b, TensorView c, const GemmOptions& options) {
  if (device_ != nullptr) {
    SCD_RETURN_IF_ERROR(CheckGemm(a, b, c, options, Device::kHost));
    if (FlopsPerByte(a, b, c, options) >= least_flops_per_byte_) return device_->Gemm(a, b, c, options);
  }
  SCD_RETURN_IF_ERROR(backend_->Gemm(*stream_, a, b, c, options));
  return backend_->Synchronize(*stream_);
}

}  // namespace scd
