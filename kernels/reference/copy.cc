#include <cstring>

#include "kernels/checks.h"
#include "kernels/reference/element.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status ReferenceBackend::Copy(Stream& /*stream*/, TensorView dst, ConstTensorView src) {
  SCD_RETURN_IF_ERROR(CheckCopy(dst, src));
  if (src.num_elements() == 0) return absl::OkStatus();
  if (src.device() != device() || dst.device() != device()) {
    return absl::InvalidArgumentError("Copy: the reference backend reaches host memory only");
  }
  const std::int64_t rows = src.rank() < 2 ? 1 : src.dim(0);
  const std::int64_t width = src.num_elements() / rows;
  const std::int64_t dst_stride = dst.rank() < 2 ? 0 : dst.stride(0);
  const std::int64_t src_stride = src.rank() < 2 ? 0 : src.stride(0);
  const std::size_t bytes = DTypeBytes(src.dtype());
  for (std::int64_t r = 0; r < rows; ++r) {
    if (dst.dtype() == src.dtype()) {
      std::memmove(static_cast<char*>(dst.data()) + static_cast<std::size_t>(r * dst_stride) * bytes,
                   static_cast<const char*>(src.data()) + static_cast<std::size_t>(r * src_stride) * bytes,
                   static_cast<std::size_t>(width) * bytes);
      continue;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      reference::Store(dst, r * dst_stride + i, reference::Load(src, r * src_stride + i));
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
