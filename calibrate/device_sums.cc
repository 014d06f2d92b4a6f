#include "calibrate/device_sums.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {

std::int64_t DeviceSums::Bytes(std::int64_t dim_a, std::int64_t dim_b, bool with_bb) {
  const std::int64_t elements = dim_a * dim_a + dim_a * dim_b + (with_bb ? dim_b * dim_b : 0);
  return elements * static_cast<std::int64_t>(sizeof(float));
}

absl::StatusOr<std::unique_ptr<DeviceSums>> DeviceSums::Create(Backend& backend, std::int64_t dim_a,
                                                               std::int64_t dim_b, bool with_bb) {
  auto sums = absl::WrapUnique(new DeviceSums(backend, dim_a, dim_b));
  const auto allocate = [&](std::int64_t rows, std::int64_t columns,
                            std::unique_ptr<Buffer>& buffer) -> absl::Status {
    auto made =
        backend.Allocate(MemoryKind::kDevice, static_cast<std::size_t>(rows * columns) * sizeof(float));
    if (absl::IsResourceExhausted(made.status())) {
      return absl::ResourceExhaustedError(
          absl::StrCat("sums of products of rows of ", dim_a, " and ", dim_b, " numbers need ",
                       (Bytes(dim_a, dim_b, with_bb) >> 20) + 1,
                       " MiB of device memory for each fit that runs at a time: ", made.status().message()));
    }
    SCD_ASSIGN_OR_RETURN(buffer, std::move(made));
    return absl::OkStatus();
  };
  SCD_RETURN_IF_ERROR(allocate(dim_a, dim_a, sums->aa_));
  SCD_RETURN_IF_ERROR(allocate(dim_a, dim_b, sums->ab_));
  if (with_bb) SCD_RETURN_IF_ERROR(allocate(dim_b, dim_b, sums->bb_));
  SCD_ASSIGN_OR_RETURN(sums->added_, backend.CreateEvent());
  return sums;
}

absl::Status DeviceSums::Add(DeviceProducts& products, const DeviceProducts::DeviceRows& rows) {
  Stream& stream = products.stream();
  SCD_RETURN_IF_ERROR(backend_.Wait(stream, *added_));
  const GemmOptions options{.transpose_a = true, .beta = num_rows_ == 0 ? 0.0f : 1.0f};
  SCD_RETURN_IF_ERROR(
      backend_.Gemm(stream, rows.a, rows.a, aa_->View(DType::kF32, {dim_a_, dim_a_}), options));
  SCD_RETURN_IF_ERROR(
      backend_.Gemm(stream, rows.a, rows.b, ab_->View(DType::kF32, {dim_a_, dim_b_}), options));
  if (bb_ != nullptr) {
    SCD_RETURN_IF_ERROR(
        backend_.Gemm(stream, rows.b, rows.b, bb_->View(DType::kF32, {dim_b_, dim_b_}), options));
  }
  num_rows_ += rows.a.dim(0);
  return backend_.Record(*added_, stream);
}

absl::Status DeviceSums::AddTo(DeviceProducts& products, double* aa, double* ab, double* bb) const {
  if (num_rows_ == 0) return absl::OkStatus();
  SCD_RETURN_IF_ERROR(backend_.Wait(products.stream(), *added_));
  SCD_RETURN_IF_ERROR(products.AddTo(aa_->View(DType::kF32, {dim_a_, dim_a_}), aa));
  SCD_RETURN_IF_ERROR(products.AddTo(ab_->View(DType::kF32, {dim_a_, dim_b_}), ab));
  if (bb_ == nullptr) return absl::OkStatus();
  return products.AddTo(bb_->View(DType::kF32, {dim_b_, dim_b_}), bb);
}

absl::Status DeviceSums::AddTo(double* aa, double* ab, double* bb) const {
  if (num_rows_ == 0) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const auto products, DeviceProducts::Create(backend_));
  return AddTo(*products, aa, ab, bb);
}

}  // namespace scd
