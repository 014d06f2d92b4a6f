// kernels/cuda/gemm.h in plain loops.
#include "absl/memory/memory.h"
#include "kernels/cuda/gemm.h"
#include "tests/support/cuda_shim/runtime.h"

namespace scd::cuda {
namespace {

float At(const void* numbers, DType dtype, std::int64_t i) {
  return dtype == DType::kBF16 ? Bf16ToFloat(static_cast<const std::uint16_t*>(numbers)[i])
                               : static_cast<const float*>(numbers)[i];
}

void MultiplyNow(const GemmProblem& p) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        sum += double{At(p.a, p.dtype, p.transpose_a ? k * p.a_stride + i : i * p.a_stride + k)} *
               At(p.b, p.dtype, p.transpose_b ? j * p.b_stride + k : k * p.b_stride + j);
      }
      float& result = p.c[i * p.c_stride + j];
      result = static_cast<float>(p.alpha * sum + (p.beta == 0.0f ? 0.0 : double{p.beta} * result));
    }
  }
}

}  // namespace

struct GemmLibrary::State {};

GemmLibrary::GemmLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
GemmLibrary::~GemmLibrary() = default;

absl::StatusOr<std::unique_ptr<GemmLibrary>> GemmLibrary::Create() {
  return absl::WrapUnique(new GemmLibrary(std::make_unique<State>()));
}

absl::Status GemmLibrary::Multiply(const GemmProblem& problem, void* /*workspace*/,
                                   std::size_t /*workspace_bytes*/, cudaStream_t stream) {
  if (problem.m < 1 || problem.n < 1 || problem.k < 1) return absl::InternalError("an empty product");
  cuda_shim::Enqueue(stream, [problem] { MultiplyNow(problem); });
  return absl::OkStatus();
}

std::string GemmLibrary::Describe() const {
  return "reference products";
}

}  // namespace scd::cuda
