#include "calibrate/device_memory.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "calibrate/device_sums.h"
#include "calibrate/parallel.h"

namespace scd {
namespace {

std::int64_t NumWeights(const ModelConfig& m) {
  const std::int64_t attention = m.hidden_size * (2 * m.d_q() + 2 * m.d_kv());
  const std::int64_t embeddings = (m.tie_word_embeddings ? 1 : 2) * m.vocab_size * m.hidden_size;
  return embeddings + m.num_layers * (attention + 3 * m.hidden_size * m.intermediate_size);
}

// At least; what `auto` finds is not known before a file was read.
std::int64_t WeightBytes(const ModelSource& source, MathMode math, const ModelConfig& model) {
  const std::int64_t weights = NumWeights(model);
  switch (source.weights) {
    case WeightsFormat::kAuto:
    case WeightsFormat::kInt4:
      return weights / 2;
    case WeightsFormat::kInt8:
      return weights;
    case WeightsFormat::kF32:
    case WeightsFormat::kBF16:
      return weights * (math == MathMode::kF32 ? 4 : 2);
  }
  return 0;
}

}  // namespace

std::int64_t DeviceMemory::peak_bytes() const {
  return models_bytes + std::max(traces_bytes, fits_bytes);
}

DeviceMemory DeviceMemoryOf(const CalibrateConfig& config, const ModelConfig& model) {
  DeviceMemory memory;
  for (const ModelSource* source : {&config.producer, &config.consumer}) {
    memory.models_bytes += WeightBytes(*source, config.backend.math, model);
  }
  const std::int64_t d_kv = model.d_kv();
  memory.traces_bytes = 2 * model.num_layers * DeviceSums::Bytes(d_kv, d_kv, true);
  const int threads = config.backend.num_threads;
  const std::int64_t candidates =
      config.patch.num_candidates == 0 ? model.num_layers : config.patch.num_candidates;
  memory.fits_bytes =
      NumWorkers(threads, candidates) * DeviceSums::Bytes(model.hidden_size, model.hidden_size, false);
  if (*config.fused.rank > 0) {
    const std::int64_t group = config.fused.group;
    const std::int64_t groups = (model.num_layers + group - 1) / group;
    memory.fits_bytes =
        std::max(memory.fits_bytes, NumWorkers(threads, groups) *
                                        DeviceSums::Bytes(group * model.hidden_size, group * 2 * d_kv, true));
  }
  return memory;
}

absl::Status CheckDeviceMemory(Backend& backend, const DeviceMemory& memory) {
  const auto tried = backend.Allocate(MemoryKind::kDevice, static_cast<std::size_t>(memory.peak_bytes()));
  if (!absl::IsResourceExhausted(tried.status())) return tried.status();
  const auto mib = [](std::int64_t bytes) { return (bytes >> 20) + 1; };
  return absl::ResourceExhaustedError(
      absl::StrCat("device cuda: this run needs ", mib(memory.peak_bytes()), " MiB of device memory (models ",
                   mib(memory.models_bytes), "; then traces ", mib(memory.traces_bytes), " or fits ",
                   mib(memory.fits_bytes),
                   ", whichever is more). Fewer threads, a smaller fused.group and math bf16 take ",
                   "less: ", tried.status().message()));
}

}  // namespace scd
