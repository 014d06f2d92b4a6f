#include "kernels/cpu/cpu_backend.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "dnnl_version.h"
#include "hwy/targets.h"
#include "kernels/checks.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/dense_product.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/onednn_products.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr int kMaxThreads = 1024;

// Cores that this process may run on, which in a container are fewer than the machine has.
int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CpuBackend::Create(const BackendOptions& options) {
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_threads is ", options.num_threads, ", expected 0 to ", kMaxThreads));
  }
  Products products = Products::kF32;
  if (options.math != MathMode::kF32 && cpu::OneDnnHasBf16()) {
    products = Products::kOneDnnBf16;
  } else if (options.math == MathMode::kBF16) {
    products = Products::kEmulatedBf16;
  }
  const int num_threads = options.num_threads == 0 ? UsableCores() : options.num_threads;
  SCD_ASSIGN_OR_RETURN(auto pool, cpu::ThreadPool::Create(num_threads));
  SCD_ASSIGN_OR_RETURN(auto callers_own, cpu::ThreadPool::Create(1));
  return absl::WrapUnique<Backend>(new CpuBackend(std::move(pool), std::move(callers_own), products));
}

std::string CpuBackend::Describe() const {
  const dnnl_version_t* version = dnnl_version();
  const char* products = products_ == Products::kF32            ? "f32"
                         : products_ == Products::kEmulatedBf16 ? "bf16 weights, f32 arithmetic"
                                                                : "bf16";
  return absl::StrCat("cpu: oneDNN ", version->major, ".", version->minor, ".", version->patch, ", ",
                      cpu::InstructionSetName(), ", ", pool_->num_threads(),
                      pool_->num_threads() == 1 ? " thread" : " threads", ", products in ", products);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuBackend::PackDense(ConstTensorView weight,
                                                                    ConstTensorView bias,
                                                                    absl::Span<const std::int64_t> cuts) {
  if (products_ == Products::kF32) return cpu::PackF32Weight(weight, bias, cuts);
  if (products_ == Products::kOneDnnBf16) {
    auto packed = cpu::PackOneDnnWeight(weight, bias, cuts, DType::kBF16, pool_->num_threads());
    // The library may lack a kernel for a shape; the emulation has one for each.
    if (packed.ok() || !absl::IsUnimplemented(packed.status())) return packed;
  }
  return cpu::PackBf16Weight(weight, bias, cuts);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuBackend::PackQuantized(const QuantizedMatrix& weight,
                                                                        ConstTensorView bias,
                                                                        absl::Span<const std::int64_t> cuts) {
  SCD_RETURN_IF_ERROR(CheckPackQuantized(weight, bias, cuts));
  if (products_ == Products::kOneDnnBf16) {
    auto packed = cpu::PackQuantizedWeight(weight, bias, cuts, DType::kBF16);
    if (packed.ok() || !absl::IsUnimplemented(packed.status())) return packed;
  }
  return cpu::PackQuantizedWeight(weight, bias, cuts, DType::kF32);
}

absl::Status CpuBackend::MatMul(Stream& /*stream*/, ConstTensorView x, const PackedWeight& weight,
                                TensorView out, const MatMulOptions& options) {
  SCD_RETURN_IF_ERROR(CheckMatMul(x, weight, out, options, device()));
  const auto* packed = dynamic_cast<const cpu::CpuWeight*>(&weight);
  if (packed == nullptr) return absl::InvalidArgumentError("MatMul: weight was packed by another backend");
  if (x.dim(0) == 0) return absl::OkStatus();
  const ColumnRange columns = ResultColumns(weight, options.columns);
  return packed->Multiply(*pool_, x, out, {columns.begin, columns.end}, options.accumulate);
}

absl::Status CpuBackend::Gemm(Stream& /*stream*/, ConstTensorView a, ConstTensorView b, TensorView c,
                              const GemmOptions& options) {
  SCD_RETURN_IF_ERROR(CheckGemm(a, b, c, options, device()));
  return cpu::DenseProduct(*pool_, a, b, c, options);
}

}  // namespace scd
