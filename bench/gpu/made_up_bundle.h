// A bundle whose translators are made up, of any size: all tensors read the same numbers.
#ifndef SCD_BENCH_GPU_MADE_UP_BUNDLE_H_
#define SCD_BENCH_GPU_MADE_UP_BUNDLE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/gpu/shape.h"
#include "common/bundle/bundle.h"

namespace scd {

// Written into `folder`, which a bundle becomes. Codes of attention inputs have about unit spread; the tables
// of the entropy codec are those of normal numbers of that spread.
absl::StatusOr<std::unique_ptr<Bundle>> MakeUpBundle(const std::string& folder, const BenchmarkShape& shape);

}  // namespace scd

#endif  // SCD_BENCH_GPU_MADE_UP_BUNDLE_H_
