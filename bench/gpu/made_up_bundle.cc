#include "bench/gpu/made_up_bundle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "common/bundle/bundle_layout.h"
#include "common/bundle/bundle_writer.h"
#include "common/config/entropy_tables.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// How often each symbol occurs where numbers of unit spread are cut into steps.
std::vector<std::int32_t> NormalFrequencies(double step) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(kEntropySymbols), 0);
  for (std::int64_t q = -kLargestSymbolValue; q <= kLargestSymbolValue; ++q) {
    const double z = static_cast<double>(q) * step;
    counts[static_cast<std::size_t>(q + kLargestSymbolValue)] =
        static_cast<std::int64_t>(1e6 * std::exp(-0.5 * z * z));
  }
  return FitFrequencies(counts);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bundle>> MakeUpBundle(const std::string& folder, const BenchmarkShape& shape) {
  const BundleManifest manifest = testing::TinyManifest(shape.model, testing::MadeUpModel("base"),
                                                        testing::MadeUpModel("expert"), shape.bundle);
  const std::vector<BundleTensor> promised = BundleTensors(manifest);
  std::int64_t most_numbers = 0, most_integers = 0;
  for (const BundleTensor& tensor : promised) {
    std::int64_t& most = tensor.dtype == DType::kI32 ? most_integers : most_numbers;
    most = std::max(most, tensor.shape.num_elements());
  }

  std::minstd_rand random(2);
  const auto spread = 1.0f / std::sqrt(static_cast<float>(shape.model.hidden_size));
  std::uniform_real_distribution<float> around_zero(-std::sqrt(3.0f) * spread, std::sqrt(3.0f) * spread);
  std::vector<float> numbers(static_cast<std::size_t>(most_numbers));
  for (float& number : numbers) number = around_zero(random);
  const double step = std::sqrt(12 * shape.bundle.distortions.front());
  const std::vector<float> steps(numbers.size(), static_cast<float>(step));
  const std::vector<std::int32_t> row = NormalFrequencies(step);
  std::vector<std::int32_t> frequencies;
  while (static_cast<std::int64_t>(frequencies.size()) < most_integers) {
    frequencies.insert(frequencies.end(), row.begin(), row.end());
  }

  std::vector<NamedTensor> tensors;
  for (const BundleTensor& tensor : promised) {
    const void* from = absl::EndsWith(tensor.name, ".steps") ? steps.data() : numbers.data();
    if (tensor.dtype == DType::kI32) from = frequencies.data();
    tensors.push_back({tensor.name, ConstTensorView(from, tensor.dtype, tensor.shape)});
  }
  SCD_RETURN_IF_ERROR(WriteBundle(folder, manifest, tensors).status());
  return Bundle::Open(folder);
}

}  // namespace scd
