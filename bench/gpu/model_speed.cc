#include "bench/gpu/model_speed.h"

#include <memory>
#include <vector>

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<nlohmann::json> MeasurePrefill(const ModelRig& rig, std::int64_t tokens, const Peaks& peaks,
                                              const Turns& turns) {
  SCD_ASSIGN_OR_RETURN(const auto sequence, Sequence::Create(rig.cache(), tokens));
  SCD_ASSIGN_OR_RETURN(const Timing timing,
                       turns.Measure([&] { return rig.Prefill(*sequence, 0, tokens, LogitsWanted::kLast); }));
  const double flop_per_s = rig.PrefillFlop(tokens) / timing.median();
  return nlohmann::json{{"tokens", tokens},
                        {"ms", 1e3 * timing.median()},
                        {"runs", timing.seconds.size()},
                        {"tokens_per_s", static_cast<double>(tokens) / timing.median()},
                        {"tflop_per_s", 1e-12 * flop_per_s},
                        {"of_product_peak", flop_per_s / peaks.product_flop_per_s}};
}

absl::StatusOr<nlohmann::json> MeasureDecode(const ModelRig& rig, std::int64_t batch, const Peaks& peaks,
                                             const Turns& turns) {
  const std::int64_t context = rig.shape().context, steps = rig.shape().steps;
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::int64_t i = 0; i < batch; ++i) {
    SCD_ASSIGN_OR_RETURN(auto sequence, Sequence::Create(rig.cache(), context + steps));
    SCD_RETURN_IF_ERROR(rig.Prefill(*sequence, 0, context, LogitsWanted::kNone));
    sequences.push_back(std::move(sequence));
  }
  std::vector<ForwardChunk> chunks(static_cast<std::size_t>(batch));
  SCD_ASSIGN_OR_RETURN(const Timing timing, turns.Measure([&]() -> absl::Status {
    for (std::int64_t position = context; position < context + steps; ++position) {
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        chunks[i] = {sequences[i].get(), rig.tokens(position, 1), position, LogitsWanted::kLast};
      }
      SCD_RETURN_IF_ERROR(rig.transformer().Forward(rig.workspace(), chunks));
    }
    return absl::OkStatus();
  }));
  const double step_seconds = timing.median() / static_cast<double>(steps);
  const ModelConfig& c = rig.shape().model;
  const double positions = static_cast<double>(context) + static_cast<double>(steps + 1) / 2;
  const double bytes =
      static_cast<double>(rig.transformer().step_bytes()) +
      static_cast<double>(batch) * positions * static_cast<double>(c.raw_kv_bytes_per_token());
  const double bytes_per_s = bytes / step_seconds;
  return nlohmann::json{{"batch", batch},
                        {"context", context},
                        {"step_ms", 1e3 * step_seconds},
                        {"runs", timing.seconds.size()},
                        {"tokens_per_s", static_cast<double>(batch) / step_seconds},
                        {"step_gb", 1e-9 * bytes},
                        {"gb_per_s", 1e-9 * bytes_per_s},
                        {"of_copy_bandwidth", bytes_per_s / peaks.copy_bytes_per_s}};
}

}  // namespace scd
