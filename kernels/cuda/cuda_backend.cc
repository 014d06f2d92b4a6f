#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/checks.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/view_rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using cuda::ToStatus;

constexpr int kLeastComputeCapability = 8;
constexpr std::int64_t kMostScratchMib = 65536;
constexpr std::int64_t kMostMemoryMib = 1 << 24;

std::string SetAside(const cuda::DeviceMemory& memory) {
  return memory.set_aside_mib() == 0 ? "" : absl::StrCat(" of which ", memory.set_aside_mib(), " are taken");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CudaBackend::Create(const BackendOptions& options) {
  const CudaOptions& cuda_options = options.cuda;
  if (cuda_options.scratch_mib < 1 || cuda_options.scratch_mib > kMostScratchMib) {
    return absl::InvalidArgumentError(
        absl::StrCat("scratch_mib is ", cuda_options.scratch_mib, ", expected 1 to ", kMostScratchMib));
  }
  if (cuda_options.memory_mib.value_or(0) < 0 || cuda_options.memory_mib.value_or(0) > kMostMemoryMib) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_mib is ", *cuda_options.memory_mib, ", expected 0 to ", kMostMemoryMib));
  }
  int count = 0;
  SCD_RETURN_IF_ERROR(ToStatus("looking for a GPU", cudaGetDeviceCount(&count)));
  const int index = cuda_options.device;
  if (index < 0 || index >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no GPU ", index, ", the driver knows ", count));
  }
  SCD_RETURN_IF_ERROR(ToStatus("cudaSetDevice", cudaSetDevice(index)));
  cudaDeviceProp properties;
  SCD_RETURN_IF_ERROR(ToStatus("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, index)));
  const std::string gpu =
      absl::StrCat(properties.name, ", compute capability ", properties.major, ".", properties.minor);
  if (properties.major < kLeastComputeCapability) {
    return absl::FailedPreconditionError(absl::StrCat("GPU ", index, " is ", gpu, ", below the ",
                                                      kLeastComputeCapability, ".0 that is needed"));
  }
  SCD_RETURN_IF_ERROR(ToStatus(absl::StrCat("kernels for ", gpu), cuda::CheckKernels()));
  SCD_ASSIGN_OR_RETURN(auto library, cuda::GemmLibrary::Create());
  SCD_ASSIGN_OR_RETURN(auto memory, cuda::DeviceMemory::Create(cuda_options.memory_mib));
  const DType product_dtype = options.math == MathMode::kF32 ? DType::kF32 : DType::kBF16;
  std::string description =
      absl::StrCat("cuda: ", gpu, ", ", properties.multiProcessorCount, " multiprocessors, ",
                   properties.totalGlobalMem >> 20, " MiB", SetAside(*memory), ", ", library->Describe(),
                   ", products in ", product_dtype == DType::kF32 ? "f32" : "bf16");
  return absl::WrapUnique<Backend>(
      new CudaBackend(index, static_cast<std::size_t>(cuda_options.scratch_mib) << 20, product_dtype,
                      std::move(memory), std::move(library), std::move(description)));
}

CudaBackend::CudaBackend(int device_index, std::size_t scratch_bytes, DType product_dtype,
                         std::shared_ptr<cuda::DeviceMemory> memory,
                         std::unique_ptr<cuda::GemmLibrary> library, std::string description)
    : device_index_(device_index),
      scratch_bytes_(scratch_bytes),
      product_dtype_(product_dtype),
      memory_(std::move(memory)),
      library_(std::move(library)),
      description_(std::move(description)) {}

absl::Status CudaBackend::UseDevice() const {
  return ToStatus("cudaSetDevice", cudaSetDevice(device_index_));
}

absl::StatusOr<cuda::CudaStream*> CudaBackend::UseAny(Stream& stream) const {
  auto* own = dynamic_cast<cuda::CudaStream*>(&stream);
  if (own == nullptr) return absl::InvalidArgumentError("stream belongs to another backend");
  SCD_RETURN_IF_ERROR(UseDevice());
  return own;
}

absl::StatusOr<cuda::CudaStream*> CudaBackend::Use(Stream& stream) const {
  SCD_ASSIGN_OR_RETURN(cuda::CudaStream * own, UseAny(stream));
  if (own->for_copies()) return absl::InvalidArgumentError("stream is for copies alone");
  return own;
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Allocate(MemoryKind kind, std::size_t bytes) {
  SCD_RETURN_IF_ERROR(UseDevice());
  return memory_->Allocate(kind, bytes);
}

absl::StatusOr<std::optional<std::int64_t>> CudaBackend::FreeDeviceBytes() {
  SCD_RETURN_IF_ERROR(UseDevice());
  return memory_->FreeBytes();
}

absl::StatusOr<std::unique_ptr<Stream>> CudaBackend::CreateStream(StreamUse use) {
  SCD_RETURN_IF_ERROR(UseDevice());
  if (use == StreamUse::kCopies) return cuda::CudaStream::CreateForCopies();
  return cuda::CudaStream::Create(*memory_, scratch_bytes_);
}

absl::StatusOr<std::unique_ptr<Event>> CudaBackend::CreateEvent() {
  SCD_RETURN_IF_ERROR(UseDevice());
  return cuda::CudaEvent::Create();
}

absl::StatusOr<cudaEvent_t> CudaBackend::Use(const Event& event) const {
  const auto* own = dynamic_cast<const cuda::CudaEvent*>(&event);
  if (own == nullptr) return absl::InvalidArgumentError("event belongs to another backend");
  SCD_RETURN_IF_ERROR(UseDevice());
  return own->get();
}

absl::Status CudaBackend::Record(Event& event, Stream& stream) {
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, UseAny(stream));
  SCD_ASSIGN_OR_RETURN(const cudaEvent_t cuda_event, Use(event));
  return ToStatus("Record", cudaEventRecord(cuda_event, own->get()));
}

absl::Status CudaBackend::Wait(Stream& stream, const Event& event) {
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, UseAny(stream));
  SCD_ASSIGN_OR_RETURN(const cudaEvent_t cuda_event, Use(event));
  return ToStatus("Wait", cudaStreamWaitEvent(own->get(), cuda_event, 0));
}

absl::Status CudaBackend::Await(const Event& event) {
  SCD_ASSIGN_OR_RETURN(const cudaEvent_t cuda_event, Use(event));
  return ToStatus("Await", cudaEventSynchronize(cuda_event));
}

absl::StatusOr<bool> CudaBackend::Reached(const Event& event) {
  SCD_ASSIGN_OR_RETURN(const cudaEvent_t cuda_event, Use(event));
  const cudaError_t error = cudaEventQuery(cuda_event);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // else the next launch would meet it
    return false;
  }
  SCD_RETURN_IF_ERROR(ToStatus("Reached", error));
  return true;
}

absl::Status CudaBackend::Synchronize(Stream& stream) {
  SCD_ASSIGN_OR_RETURN(cuda::CudaStream * own, UseAny(stream));
  return own->Synchronize();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::PackWeight(ConstTensorView weight,
                                                                      ConstTensorView bias,
                                                                      const PackOptions& options) {
  SCD_RETURN_IF_ERROR(CheckPackWeight(weight, bias, options));
  SCD_RETURN_IF_ERROR(UseDevice());
  if (options.format == WeightFormat::kDense) {
    return cuda::CudaWeight::PackDense(*memory_, weight, bias, options.cuts, product_dtype_);
  }
  SCD_ASSIGN_OR_RETURN(const QuantizedMatrix matrix,
                       QuantizeMatrix(weight, options.format == WeightFormat::kInt4 ? 4 : 8));
  return cuda::CudaWeight::PackQuantized(*memory_, matrix, bias, options.cuts, product_dtype_);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::PackQuantized(
    const QuantizedMatrix& weight, ConstTensorView bias, absl::Span<const std::int64_t> cuts) {
  SCD_RETURN_IF_ERROR(CheckPackQuantized(weight, bias, cuts));
  SCD_RETURN_IF_ERROR(UseDevice());
  return cuda::CudaWeight::PackQuantized(*memory_, weight, bias, cuts, product_dtype_);
}

absl::Status CudaBackend::MatMul(Stream& stream, ConstTensorView x, const PackedWeight& weight,
                                 TensorView out, const MatMulOptions& options) {
  SCD_RETURN_IF_ERROR(CheckMatMul(x, weight, out, options, device()));
  const auto* packed = dynamic_cast<const cuda::CudaWeight*>(&weight);
  if (packed == nullptr) return absl::InvalidArgumentError("MatMul: weight was packed by another backend");
  SCD_ASSIGN_OR_RETURN(cuda::CudaStream * own, Use(stream));
  cuda::Scratch scratch(*own);
  return cuda::Multiply(*library_, *own, scratch,
                        {.x = x,
                         .weight = packed,
                         .columns = ResultColumns(weight, options.columns),
                         .out = out,
                         .accumulate = options.accumulate});
}

absl::Status CudaBackend::Gemm(Stream& stream, ConstTensorView a, ConstTensorView b, TensorView c,
                               const GemmOptions& options) {
  SCD_RETURN_IF_ERROR(CheckGemm(a, b, c, options, device()));
  SCD_ASSIGN_OR_RETURN(cuda::CudaStream * own, Use(stream));
  if (c.num_elements() == 0) return absl::OkStatus();
  const std::int64_t depth = a.dim(options.transpose_a ? 0 : 1);
  if (depth == 0) {
    return ToStatus("Gemm", cuda::LaunchScaleAndBias(own->get(), cuda::RowsOf(c), options.beta, nullptr,
                                                     c.dim(0), c.dim(1)));
  }
  return library_->Multiply({.transpose_a = options.transpose_a,
                             .transpose_b = options.transpose_b,
                             .m = c.dim(0),
                             .n = c.dim(1),
                             .k = depth,
                             .a = a.data(),
                             .a_stride = a.stride(0),
                             .b = b.data(),
                             .b_stride = b.stride(0),
                             .c = c.as<float>(),
                             .c_stride = c.stride(0),
                             .alpha = options.alpha,
                             .beta = options.beta},
                            own->scratch().data(), own->scratch().size_bytes(), own->get());
}

absl::Status CudaBackend::RmsNorm(Stream& stream, ConstTensorView x, ConstTensorView weight, float epsilon,
                                  TensorView out) {
  SCD_RETURN_IF_ERROR(CheckRmsNorm(x, weight, epsilon, out, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("RmsNorm", cuda::LaunchRmsNorm(own->get(), cuda::RowsOf(x), weight.as<float>(), epsilon,
                                                 cuda::RowsOf(out), x.dim(0), x.dim(1)));
}

absl::Status CudaBackend::Rope(Stream& stream, TensorView x, ConstTensorView positions,
                               const RopeTable& table) {
  SCD_RETURN_IF_ERROR(CheckRope(x, positions, table, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("Rope",
                  cuda::LaunchRope(own->get(), cuda::RowsOf(x), positions.as<std::int32_t>(),
                                   cuda::RopeRowsOf(table), x.dim(0), x.dim(1), x.dim(2), own->bad_index()));
}

absl::Status CudaBackend::SwiGlu(Stream& stream, ConstTensorView gate, ConstTensorView up, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckSwiGlu(gate, up, out, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("SwiGlu", cuda::LaunchSwiGlu(own->get(), cuda::RowsOf(gate), cuda::RowsOf(up),
                                               cuda::RowsOf(out), gate.dim(0), gate.dim(1)));
}

absl::Status CudaBackend::Silu(Stream& stream, TensorView x) {
  SCD_RETURN_IF_ERROR(CheckSilu(x, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("Silu", cuda::LaunchSwiGlu(own->get(), cuda::RowsOf(ConstTensorView(x)), {},
                                             cuda::RowsOf(x), x.dim(0), x.dim(1)));
}

absl::Status CudaBackend::Embed(Stream& stream, ConstTensorView table, ConstTensorView ids, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckEmbed(table, ids, out, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("Embed",
                  cuda::LaunchEmbed(own->get(), cuda::AnyRowsOf(table), table.dim(0), ids.as<std::int32_t>(),
                                    cuda::RowsOf(out), ids.dim(0), table.dim(1), own->bad_index()));
}

}  // namespace scd
