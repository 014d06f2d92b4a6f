// Ops of the cuda backend for codes and sampling.
#include "kernels/checks.h"
#include "kernels/cuda/codes.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/view_rows.h"
#include "kernels/status_macros.h"

namespace scd {

using cuda::ToStatus;

absl::Status CudaBackend::PackCodes(Stream& stream, ConstTensorView rows, const GroupedIntegers& layout,
                                    TensorView bytes) {
  SCD_RETURN_IF_ERROR(CheckPackCodes(rows, layout, bytes, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("PackCodes", cuda::LaunchPackCodes(own->get(), cuda::RowsOf(rows), layout,
                                                     bytes.as<std::uint8_t>(), rows.dim(0)));
}

absl::Status CudaBackend::UnpackCodes(Stream& stream, ConstTensorView bytes, const GroupedIntegers& layout,
                                      std::int64_t first_row, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckUnpackCodes(bytes, layout, first_row, out, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  return ToStatus("UnpackCodes",
                  cuda::LaunchUnpackCodes(own->get(), bytes.as<std::uint8_t>(), layout, first_row,
                                          cuda::AnyRowsOutOf(out), out.dim(0)));
}

absl::Status CudaBackend::TopLogits(Stream& stream, ConstTensorView logits, ConstTensorView temperatures,
                                    const TopLogitsOut& best) {
  SCD_RETURN_IF_ERROR(CheckTopLogits(logits, temperatures, best, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  const cuda::TopRows rows{.values = cuda::RowsOf(best.values),
                           .ids = {best.ids.as<std::int32_t>(), best.ids.stride(0)},
                           .sums = cuda::RowsOf(best.sums),
                           .k = static_cast<std::int32_t>(best.values.dim(1))};
  return ToStatus("TopLogits",
                  cuda::LaunchTopLogits(own->get(), cuda::RowsOf(logits), temperatures.as<float>(), rows,
                                        logits.dim(0), logits.dim(1)));
}

}  // namespace scd
