// Models and translators by size: numbers are made up, shapes are those of real ones.
#ifndef SCD_BENCH_GPU_SHAPE_H_
#define SCD_BENCH_GPU_SHAPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/gpu/options.h"
#include "common/config/model_config.h"
#include "tests/support/tiny_bundle.h"

namespace scd {

struct BenchmarkShape {
  ModelConfig model;
  testing::TinyBundleOptions bundle;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> batches;
  std::int64_t context = 0;
  std::int64_t steps = 0;
  std::int64_t chunk = 0;

  // The product and the copies that speeds are compared with.
  std::int64_t product_rows = 0, product_depth = 0, product_columns = 0;
  std::int64_t copy_bytes = 0;
};

// The named one with what `options` overrides. INVALID_ARGUMENT naming the option.
absl::StatusOr<BenchmarkShape> MakeShape(const GpuBenchmarkOptions& options);

}  // namespace scd

#endif  // SCD_BENCH_GPU_SHAPE_H_
