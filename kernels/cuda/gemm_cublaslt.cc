#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"
#include "kernels/cuda/gemm.h"
#include "kernels/status_macros.h"

namespace scd::cuda {
namespace {

absl::Status ToStatus(std::string_view what, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat(Text(what), ": ", cublasLtGetStatusName(status));
  return status == CUBLAS_STATUS_ALLOC_FAILED ? absl::ResourceExhaustedError(text)
                                              : absl::InternalError(text);
}

template <typename Handle, cublasStatus_t (*Destroy)(Handle)>
struct DestroyWith {
  void operator()(Handle handle) const { Destroy(handle); }
};
using Operation =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyWith<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t,
                               DestroyWith<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                                   DestroyWith<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

// The largest power of two up to 256 that divides the address.
std::uint32_t Alignment(const void* address) {
  constexpr std::uintptr_t kMost = 256;
  const auto value = reinterpret_cast<std::uintptr_t>(address) | kMost;
  return static_cast<std::uint32_t>(value & (~value + 1));
}

// All that the choice of an algorithm depends on.
using ProblemKey = std::array<std::int64_t, 14>;

ProblemKey KeyOf(const GemmProblem& p, std::size_t workspace_bytes) {
  return {static_cast<std::int64_t>(p.dtype),
          p.transpose_a,
          p.transpose_b,
          p.m,
          p.n,
          p.k,
          p.a_stride,
          p.b_stride,
          p.c_stride,
          Alignment(p.a),
          Alignment(p.b),
          Alignment(p.c),
          p.beta != 0.0f,
          static_cast<std::int64_t>(workspace_bytes)};
}

// The library's matrices are stored by columns, so ours are their own transposes to it: c^T = op(b)^T
// op(a)^T, and b is its first operand.
struct Descriptors {
  static absl::StatusOr<Descriptors> Create(const GemmProblem& p) {
    Descriptors made;
    cublasLtMatmulDesc_t operation = nullptr;
    SCD_RETURN_IF_ERROR(ToStatus("cublasLtMatmulDescCreate",
                                 cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
    made.operation.reset(operation);
    SCD_RETURN_IF_ERROR(SetTranspose(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b));
    SCD_RETURN_IF_ERROR(SetTranspose(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a));
    const cudaDataType_t type = p.dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
    SCD_ASSIGN_OR_RETURN(made.first,
                         MakeLayout(type, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.b_stride));
    SCD_ASSIGN_OR_RETURN(made.second,
                         MakeLayout(type, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.a_stride));
    SCD_ASSIGN_OR_RETURN(made.result, MakeLayout(CUDA_R_32F, p.n, p.m, p.c_stride));
    return made;
  }

  Operation operation;
  Layout first;
  Layout second;
  Layout result;

 private:
  static absl::Status SetTranspose(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                                   bool transpose) {
    const cublasOperation_t value = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    return ToStatus("cublasLtMatmulDescSetAttribute",
                    cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof(value)));
  }

  static absl::StatusOr<Layout> MakeLayout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                           std::int64_t stride) {
    cublasLtMatrixLayout_t layout = nullptr;
    SCD_RETURN_IF_ERROR(ToStatus("cublasLtMatrixLayoutCreate",
                                 cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                                            static_cast<std::uint64_t>(columns), stride)));
    return Layout(layout);
  }
};

absl::StatusOr<cublasLtMatmulAlgo_t> ChooseAlgorithm(cublasLtHandle_t handle, const Descriptors& descriptors,
                                                     const GemmProblem& p, std::size_t workspace_bytes) {
  cublasLtMatmulPreference_t created = nullptr;
  SCD_RETURN_IF_ERROR(ToStatus("cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(&created)));
  const Preference preference(created);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    return ToStatus("cublasLtMatmulPreferenceSetAttribute",
                    cublasLtMatmulPreferenceSetAttribute(created, which, &value, sizeof(value)));
  };
  SCD_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes}));
  SCD_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Alignment(p.b)));
  SCD_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Alignment(p.a)));
  SCD_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Alignment(p.c)));
  SCD_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Alignment(p.c)));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  SCD_RETURN_IF_ERROR(
      ToStatus("cublasLtMatmulAlgoGetHeuristic",
               cublasLtMatmulAlgoGetHeuristic(handle, descriptors.operation.get(), descriptors.first.get(),
                                              descriptors.second.get(), descriptors.result.get(),
                                              descriptors.result.get(), created, 1, &result, &found)));
  if (found == 0) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no algorithm for a product of ", p.m, " x ", p.n, " x ", p.k));
  }
  return result.algo;
}

}  // namespace

struct GemmLibrary::State {
  ~State() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  cublasLtHandle_t handle = nullptr;
  std::mutex mutex;
  std::map<ProblemKey, cublasLtMatmulAlgo_t> chosen;  // guarded by mutex
};

namespace {

// Far more shapes than a model has; prompts of every length make new ones.
constexpr std::size_t kMostChosen = 4096;

}  // namespace

GemmLibrary::GemmLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
GemmLibrary::~GemmLibrary() = default;

absl::StatusOr<std::unique_ptr<GemmLibrary>> GemmLibrary::Create() {
  auto state = std::make_unique<State>();
  SCD_RETURN_IF_ERROR(ToStatus("cublasLtCreate", cublasLtCreate(&state->handle)));
  return absl::WrapUnique(new GemmLibrary(std::move(state)));
}

absl::Status GemmLibrary::Multiply(const GemmProblem& problem, void* workspace, std::size_t workspace_bytes,
                                   cudaStream_t stream) {
  SCD_ASSIGN_OR_RETURN(const Descriptors descriptors, Descriptors::Create(problem));
  const ProblemKey key = KeyOf(problem, workspace_bytes);
  cublasLtMatmulAlgo_t algorithm;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto found = state_->chosen.find(key);
    if (found == state_->chosen.end()) {
      SCD_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t chosen,
                           ChooseAlgorithm(state_->handle, descriptors, problem, workspace_bytes));
      if (state_->chosen.size() >= kMostChosen) state_->chosen.clear();
      found = state_->chosen.emplace(key, chosen).first;
    }
    algorithm = found->second;
  }
  return ToStatus("cublasLtMatmul",
                  cublasLtMatmul(state_->handle, descriptors.operation.get(), &problem.alpha, problem.b,
                                 descriptors.first.get(), problem.a, descriptors.second.get(), &problem.beta,
                                 problem.c, descriptors.result.get(), problem.c, descriptors.result.get(),
                                 &algorithm, workspace, workspace_bytes, stream));
}

std::string GemmLibrary::Describe() const {
  const std::size_t version = cublasLtGetVersion();
  return absl::StrCat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace scd::cuda
