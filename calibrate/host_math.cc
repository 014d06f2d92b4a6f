#include "calibrate/host_math.h"

#include <utility>

#include "kernels/backend_factory.h"
#include "kernels/status_macros.h"

namespace scd {

HostMath::HostMath(std::unique_ptr<Backend> backend, std::unique_ptr<Stream> stream)
    : backend_(std::move(backend)), stream_(std::move(stream)) {}

absl::StatusOr<std::unique_ptr<HostMath>> HostMath::Create(int num_threads) {
  SCD_ASSIGN_OR_RETURN(auto backend,
                       CreateBackend({.device = "cpu", .num_threads = num_threads, .math = MathMode::kF32}));
  SCD_ASSIGN_OR_RETURN(auto stream, backend->CreateStream());
  return std::unique_ptr<HostMath>(new HostMath(std::move(backend), std::move(stream)));
}

absl::Status HostMath::Gemm(ConstTensorView a, ConstTensorView b, TensorView c, const GemmOptions& options) {
  SCD_RETURN_IF_ERROR(backend_->Gemm(*stream_, a, b, c, options));
  return backend_->Synchronize(*stream_);
}

}  // namespace scd
