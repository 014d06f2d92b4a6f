// What the device can do at most, as this program reaches it: one large product and large copies.
#ifndef SCD_BENCH_GPU_PEAKS_H_
#define SCD_BENCH_GPU_PEAKS_H_

#include "absl/status/statusor.h"
#include "bench/gpu/made_up_weights.h"
#include "bench/gpu/shape.h"
#include "bench/gpu/timing.h"
#include "kernels/backend.h"

namespace scd {

struct Peaks {
  double product_flop_per_s = 0;  // as models multiply: f32 operands are rounded on the way
  double copy_bytes_per_s = 0;    // device to device, bytes read and bytes written
  double upload_bytes_per_s = 0;  // from staging memory
  double download_bytes_per_s = 0;
  nlohmann::json ToJson(const BenchmarkShape& shape) const;
};

// Numbers that the product's operands need.
std::int64_t PeakNumbers(const BenchmarkShape& shape);

absl::StatusOr<Peaks> MeasurePeaks(Backend& backend, const BenchmarkShape& shape,
                                   const MadeUpNumbers& numbers, const Turns& turns);

}  // namespace scd

#endif  // SCD_BENCH_GPU_PEAKS_H_
