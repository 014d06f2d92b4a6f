#include "bench/gpu/peaks.h"

#include <algorithm>
#include <memory>

#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::StatusOr<double> ProductSpeed(Backend& backend, Stream& stream, const BenchmarkShape& shape,
                                    const MadeUpNumbers& numbers, const Turns& turns) {
  const std::int64_t rows = shape.product_rows, depth = shape.product_depth, columns = shape.product_columns;
  SCD_ASSIGN_OR_RETURN(const auto weight, backend.PackWeight(numbers.view({columns, depth}), {}));
  SCD_ASSIGN_OR_RETURN(
      const auto x_buffer,
      backend.Allocate(MemoryKind::kDevice, sizeof(float) * static_cast<std::size_t>(rows * depth)));
  SCD_ASSIGN_OR_RETURN(
      const auto out_buffer,
      backend.Allocate(MemoryKind::kDevice, sizeof(float) * static_cast<std::size_t>(rows * columns)));
  const TensorView x = x_buffer->View(DType::kF32, {rows, depth});
  const TensorView out = out_buffer->View(DType::kF32, {rows, columns});
  SCD_RETURN_IF_ERROR(backend.Copy(stream, x, numbers.view({rows, depth})));
  SCD_ASSIGN_OR_RETURN(const Timing timing, turns.Measure([&]() -> absl::Status {
    SCD_RETURN_IF_ERROR(backend.MatMul(stream, x, *weight, out));
    return backend.Synchronize(stream);
  }));
  return 2.0 * static_cast<double>(rows) * static_cast<double>(depth) * static_cast<double>(columns) /
         timing.median();
}

absl::StatusOr<double> CopySpeed(Backend& backend, Stream& stream, MemoryKind from, MemoryKind to,
                                 std::int64_t bytes, const Turns& turns) {
  SCD_ASSIGN_OR_RETURN(const auto source, backend.Allocate(from, static_cast<std::size_t>(bytes)));
  SCD_ASSIGN_OR_RETURN(const auto target, backend.Allocate(to, static_cast<std::size_t>(bytes)));
  SCD_ASSIGN_OR_RETURN(const Timing timing, turns.Measure([&]() -> absl::Status {
    SCD_RETURN_IF_ERROR(
        backend.Copy(stream, target->View(DType::kU8, {bytes}), source->View(DType::kU8, {bytes})));
    return backend.Synchronize(stream);
  }));
  return static_cast<double>(bytes) / timing.median();
}

}  // namespace

std::int64_t PeakNumbers(const BenchmarkShape& shape) {
  return shape.product_depth * std::max(shape.product_rows, shape.product_columns);
}

nlohmann::json Peaks::ToJson(const BenchmarkShape& shape) const {
  return {{"product", {shape.product_rows, shape.product_depth, shape.product_columns}},
          {"product_tflop_per_s", 1e-12 * product_flop_per_s},
          {"copy_gb_per_s", 1e-9 * copy_bytes_per_s},
          {"upload_gb_per_s", 1e-9 * upload_bytes_per_s},
          {"download_gb_per_s", 1e-9 * download_bytes_per_s}};
}

absl::StatusOr<Peaks> MeasurePeaks(Backend& backend, const BenchmarkShape& shape,
                                   const MadeUpNumbers& numbers, const Turns& turns) {
  SCD_ASSIGN_OR_RETURN(const auto stream, backend.CreateStream());
  constexpr MemoryKind kDevice = MemoryKind::kDevice, kHost = MemoryKind::kStaging;
  const std::int64_t host_bytes = std::max<std::int64_t>(1, shape.copy_bytes / 8);
  Peaks peaks;
  SCD_ASSIGN_OR_RETURN(peaks.product_flop_per_s, ProductSpeed(backend, *stream, shape, numbers, turns));
  SCD_ASSIGN_OR_RETURN(const double copied,
                       CopySpeed(backend, *stream, kDevice, kDevice, shape.copy_bytes, turns));
  peaks.copy_bytes_per_s = 2 * copied;
  SCD_ASSIGN_OR_RETURN(peaks.upload_bytes_per_s,
                       CopySpeed(backend, *stream, kHost, kDevice, host_bytes, turns));
  SCD_ASSIGN_OR_RETURN(peaks.download_bytes_per_s,
                       CopySpeed(backend, *stream, kDevice, kHost, host_bytes, turns));
  return peaks;
}

}  // namespace scd
