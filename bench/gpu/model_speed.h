// Prefill and decode of a model, beside what the device can do.
#ifndef SCD_BENCH_GPU_MODEL_SPEED_H_
#define SCD_BENCH_GPU_MODEL_SPEED_H_

#include "absl/status/statusor.h"
#include "bench/gpu/model_rig.h"
#include "bench/gpu/peaks.h"
#include "bench/gpu/timing.h"
#include "nlohmann/json.hpp"

namespace scd {

// Of `tokens` tokens from nothing to the last one's logits.
absl::StatusOr<nlohmann::json> MeasurePrefill(const ModelRig& rig, std::int64_t tokens, const Peaks& peaks,
                                              const Turns& turns);

// Steps of `batch` sequences together, after the shape's context. What a step must read is the matrices and
// the K and V of every sequence.
absl::StatusOr<nlohmann::json> MeasureDecode(const ModelRig& rig, std::int64_t batch, const Peaks& peaks,
                                             const Turns& turns);

}  // namespace scd

#endif  // SCD_BENCH_GPU_MODEL_SPEED_H_
