// Copies of the cuda backend: the driver's where dtypes are equal; else through scratch memory, where one
// side is the host's.
#include <algorithm>
#include <cstdint>

#include "kernels/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using cuda::ToStatus;

// Any view as rows of elements that lie beside each other.
template <typename View>
View AsRows(const View& view) {
  if (view.rank() < 2) return View(view.data(), view.dtype(), {1, view.num_elements()}, view.device());
  const std::int64_t width = view.num_elements() / view.dim(0);
  const View flat(view.data(), view.dtype(), {view.dim(0), view.dim(0) == 1 ? width : view.stride(0)},
                  view.device());
  return flat.columns(0, width);
}

cudaError_t CopySame(cudaStream_t stream, const TensorView& dst, const ConstTensorView& src) {
  const std::size_t bytes = DTypeBytes(src.dtype());
  const auto rows = static_cast<std::size_t>(src.dim(0));
  const std::size_t width = static_cast<std::size_t>(src.dim(1)) * bytes;
  if (rows == 1 || (dst.contiguous() && src.contiguous())) {
    return cudaMemcpyAsync(dst.data(), src.data(), rows * width, cudaMemcpyDefault, stream);
  }
  return cudaMemcpy2DAsync(dst.data(), static_cast<std::size_t>(dst.stride(0)) * bytes, src.data(),
                           static_cast<std::size_t>(src.stride(0)) * bytes, width, rows, cudaMemcpyDefault,
                           stream);
}

cudaError_t Convert(cudaStream_t stream, const TensorView& dst, const ConstTensorView& src) {
  return cuda::LaunchConvert(stream, {dst.data(), dst.dtype(), dst.stride(0)},
                             {src.data(), src.dtype(), src.stride(0)}, src.dim(0), src.dim(1), src.dim(1));
}

// As many rows, or columns of one row, as fit into the scratch memory at once.
absl::Status CopyThroughScratch(const cuda::CudaStream& stream, const TensorView& dst,
                                const ConstTensorView& src) {
  const bool to_device = dst.device() == Device::kCuda;
  const DType dtype = to_device ? src.dtype() : dst.dtype();
  if (stream.for_copies()) {
    return absl::InvalidArgumentError("Copy: the stream is for copies between equal dtypes alone");
  }
  cuda::Scratch scratch(stream);
  const auto elements = static_cast<std::int64_t>(scratch.left() / DTypeBytes(dtype));
  const std::int64_t width = std::min(src.dim(1), elements);
  const std::int64_t height = std::min(src.dim(0), elements / width);
  SCD_ASSIGN_OR_RETURN(void* memory,
                       scratch.Take(static_cast<std::size_t>(width * height) * DTypeBytes(dtype)));
  for (std::int64_t row = 0; row < src.dim(0); row += height) {
    const std::int64_t rows = std::min(height, src.dim(0) - row);
    for (std::int64_t column = 0; column < src.dim(1); column += width) {
      const std::int64_t columns = std::min(width, src.dim(1) - column);
      const TensorView to = dst.rows(row, rows).columns(column, columns);
      const ConstTensorView from = src.rows(row, rows).columns(column, columns);
      const TensorView between(memory, dtype, {rows, columns}, Device::kCuda);
      SCD_RETURN_IF_ERROR(ToStatus(
          "Copy", to_device ? CopySame(stream.get(), between, from) : Convert(stream.get(), between, from)));
      SCD_RETURN_IF_ERROR(ToStatus(
          "Copy", to_device ? Convert(stream.get(), to, between) : CopySame(stream.get(), to, between)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaBackend::Copy(Stream& stream, TensorView dst, ConstTensorView src) {
  SCD_RETURN_IF_ERROR(CheckCopy(dst, src));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, UseAny(stream));
  if (src.num_elements() == 0) return absl::OkStatus();
  if (dst.device() == Device::kHost && src.device() == Device::kHost) {
    return absl::InvalidArgumentError("Copy: dst and src are both host memory");
  }
  const TensorView dst_rows = AsRows(dst);
  const ConstTensorView src_rows = AsRows(src);
  if (dst.dtype() == src.dtype()) return ToStatus("Copy", CopySame(own->get(), dst_rows, src_rows));
  if (dst.device() == src.device()) return ToStatus("Copy", Convert(own->get(), dst_rows, src_rows));
  return CopyThroughScratch(*own, dst_rows, src_rows);
}

}  // namespace scd
