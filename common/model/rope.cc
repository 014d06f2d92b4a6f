#include "common/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// theta^(-2i / head_dim), rounded to float where transformers rounds.
std::vector<float> PlainInverse(double theta, std::int64_t head_dim) {
  std::vector<float> inverse(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    inverse[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return inverse;
}

void ScaleLinear(const RopeConfig& config, std::vector<float>& inverse) {
  for (float& f : inverse) f = static_cast<float>(f / config.factor);
}

// Slow dimensions are slowed by `factor`, fast ones are kept, those between are blended by wavelength.
void ScaleLlama3(const RopeConfig& config, std::vector<float>& inverse) {
  const double context = static_cast<double>(config.original_max_positions);
  const double longest_kept = context / config.high_freq_factor;
  const double longest_blended = context / config.low_freq_factor;
  for (float& f : inverse) {
    const double wavelength = kTwoPi / f;
    if (wavelength < longest_kept) continue;
    double kept = 0.0;
    if (wavelength <= longest_blended) {
      kept = (context / wavelength - config.low_freq_factor) /
             (config.high_freq_factor - config.low_freq_factor);
    }
    f = static_cast<float>((1.0 - kept) * f / config.factor + kept * f);
  }
}

// The (fractional) dimension that turns `rotations` times over the original context.
double YarnDimension(const RopeConfig& config, std::int64_t head_dim, double rotations) {
  const double context = static_cast<double>(config.original_max_positions);
  return static_cast<double>(head_dim) * std::log(context / (rotations * kTwoPi)) /
         (2.0 * std::log(config.theta));
}

// Dimensions below `low` are kept, those above `high` are slowed by `factor`, with a ramp between.
void ScaleYarn(const RopeConfig& config, std::int64_t head_dim, std::vector<float>& inverse) {
  double low = YarnDimension(config, head_dim, config.beta_fast);
  double high = YarnDimension(config, head_dim, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double f = inverse[i];
    inverse[i] = static_cast<float>(f / config.factor * slowed + f * (1.0 - slowed));
  }
}

double YarnMscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double YarnAttentionFactor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  // transformers takes a zero for absent.
  if (config.mscale.value_or(0.0) != 0.0 && config.mscale_all_dim.value_or(0.0) != 0.0) {
    return YarnMscale(config.factor, *config.mscale) / YarnMscale(config.factor, *config.mscale_all_dim);
  }
  return YarnMscale(config.factor, 1.0);
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const RopeConfig& config, std::int64_t head_dim) {
  RopeFrequencies frequencies{PlainInverse(config.theta, head_dim), 1.0};
  switch (config.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      ScaleLinear(config, frequencies.inverse);
      break;
    case RopeType::kLlama3:
      ScaleLlama3(config, frequencies.inverse);
      break;
    case RopeType::kYarn:
      ScaleYarn(config, head_dim, frequencies.inverse);
      frequencies.attention_factor = YarnAttentionFactor(config);
      break;
  }
  return frequencies;
}

absl::StatusOr<std::unique_ptr<RopeTables>> RopeTables::Create(Backend& backend,
                                                               const RopeFrequencies& frequencies,
                                                               std::int64_t num_positions) {
  const auto half = static_cast<std::int64_t>(frequencies.inverse.size());
  if (num_positions < 1 || half < 1) {
    return absl::InvalidArgumentError(absl::StrCat("RoPE table: ", num_positions, " positions of ", half,
                                                   " frequencies, expected at least 1"));
  }
  const Shape shape{num_positions, half};
  const auto count = static_cast<std::size_t>(shape.num_elements());
  // Angles are float products, as in transformers; their cosines are exact to a float.
  std::vector<float> cos(count);
  std::vector<float> sin(count);
  const auto attention_factor = static_cast<float>(frequencies.attention_factor);
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = static_cast<float>(i / static_cast<std::size_t>(half));
    const float angle = position * frequencies.inverse[i % static_cast<std::size_t>(half)];
    cos[i] = static_cast<float>(std::cos(double{angle})) * attention_factor;
    sin[i] = static_cast<float>(std::sin(double{angle})) * attention_factor;
  }

  SCD_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> memory,
                       backend.Allocate(MemoryKind::kDevice, 2 * count * sizeof(float)));
  auto* const base = static_cast<float*>(memory->data());
  const TensorView cos_view(base, DType::kF32, shape, memory->device());
  const TensorView sin_view(base + count, DType::kF32, shape, memory->device());
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream());
  SCD_RETURN_IF_ERROR(backend.Copy(*stream, cos_view, ConstTensorView(cos.data(), DType::kF32, shape)));
  SCD_RETURN_IF_ERROR(backend.Copy(*stream, sin_view, ConstTensorView(sin.data(), DType::kF32, shape)));
  SCD_RETURN_IF_ERROR(backend.Synchronize(*stream));
  return absl::WrapUnique(new RopeTables(std::move(memory), RopeTable{cos_view, sin_view}));
}

}  // namespace scd
