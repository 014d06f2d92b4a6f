#include "kernels/quantized_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"
#include "kernels/dtype.h"

namespace scd {
namespace {

constexpr int kMax4 = 15;
constexpr int kMax8 = 127;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckCount(std::string_view field, std::size_t count, std::int64_t expected) {
  if (count == static_cast<std::size_t>(expected)) return absl::OkStatus();
  return Invalid(Text(field), " has ", count, " elements, expected ", expected);
}

bool AllFinite(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
}

float Element(const ConstTensorView& weight, std::int64_t row, std::int64_t column) {
  if (weight.dtype() == DType::kF32) return weight.row<float>(row)[column];
  const std::uint16_t bits = weight.row<std::uint16_t>(row)[column];
  return weight.dtype() == DType::kF16 ? F16ToFloat(bits) : Bf16ToFloat(bits);
}

// The nearest number of 16 bits that is not below (above) `value`; `value` itself where there is none.
// Backends keep groups whose scale and minimum are of 16 bits in less memory.
float RoundUpToF16(float value) {
  constexpr std::uint16_t kSign = 0x8000;
  constexpr std::uint16_t kSmallest = 1;
  std::uint16_t bits = FloatToF16(value);
  if (F16ToFloat(bits) < value) {
    if (bits == kSign) {
      bits = kSmallest;
    } else {
      bits = static_cast<std::uint16_t>((bits & kSign) != 0 ? bits - 1 : bits + 1);
    }
  }
  const float rounded = F16ToFloat(bits);
  return std::isfinite(rounded) ? rounded : value;
}

float RoundDownToF16(float value) {
  return -RoundUpToF16(-value);
}

std::int8_t RoundTo(double value, double least, double greatest) {
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(value), least, greatest));
}

}  // namespace

absl::Status QuantizedMatrix::Validate() const {
  if (bits != 4 && bits != 8) return Invalid("bits is ", bits, ", expected 4 or 8");
  if (out_features < 1) return Invalid("out_features is ", out_features);
  if (in_features < 1 || in_features % kWeightGroup != 0) {
    return Invalid("in_features is ", in_features, ", expected a multiple of ", kWeightGroup);
  }
  if (in_features > std::numeric_limits<std::int64_t>::max() / out_features) {
    return Invalid("out_features is ", out_features, " and in_features ", in_features,
                   ", too large together");
  }
  const std::int64_t count = out_features * in_features;
  if (absl::Status status = CheckCount("values", values.size(), count); !status.ok()) return status;
  if (absl::Status status = CheckCount("scales", scales.size(), count / kWeightGroup); !status.ok()) {
    return status;
  }
  if (!minimums.empty()) {
    if (absl::Status status = CheckCount("minimums", minimums.size(), count / kWeightGroup); !status.ok()) {
      return status;
    }
  }
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  if (*least < (bits == 4 ? 0 : -kMax8) || *greatest > (bits == 4 ? kMax4 : kMax8)) {
    return Invalid("values are from ", int{*least}, " to ", int{*greatest}, ", too far for ", bits, " bits");
  }
  if (!AllFinite(scales)) return Invalid("scales are not all finite");
  if (!AllFinite(minimums)) return Invalid("minimums are not all finite");
  return absl::OkStatus();
}

absl::StatusOr<QuantizedMatrix> QuantizeMatrix(ConstTensorView weight, int bits) {
  if (bits != 4 && bits != 8) return Invalid("bits is ", bits, ", expected 4 or 8");
  const bool is_float =
      weight.dtype() == DType::kF32 || weight.dtype() == DType::kF16 || weight.dtype() == DType::kBF16;
  if (weight.rank() != 2 || !is_float || weight.empty() || weight.device() != Device::kHost ||
      weight.dim(0) < 1 || weight.dim(1) < 1 || weight.dim(1) % kWeightGroup != 0 || weight.stride(1) != 1) {
    return Invalid("weight has shape ", weight.shape().ToString(),
                   ", expected a matrix of floats on the host with a multiple of ", kWeightGroup, " columns");
  }
  QuantizedMatrix matrix;
  matrix.bits = bits;
  matrix.out_features = weight.dim(0);
  matrix.in_features = weight.dim(1);
  matrix.values.reserve(static_cast<std::size_t>(weight.num_elements()));
  for (std::int64_t o = 0; o < matrix.out_features; ++o) {
    for (std::int64_t begin = 0; begin < matrix.in_features; begin += kWeightGroup) {
      float numbers[kWeightGroup];
      for (std::int64_t i = 0; i < kWeightGroup; ++i) numbers[i] = Element(weight, o, begin + i);
      const auto [least, greatest] = std::minmax_element(numbers, numbers + kWeightGroup);
      if (std::any_of(numbers, numbers + kWeightGroup, [](float w) { return !std::isfinite(w); })) {
        return Invalid("weight has a number that is not finite in row ", o);
      }
      const float minimum = bits == 4 ? RoundDownToF16(*least) : 0.0f;
      const double range = bits == 4 ? double{*greatest} - minimum : std::max(-*least, *greatest);
      const float scale = RoundUpToF16(static_cast<float>(range / (bits == 4 ? kMax4 : kMax8)));
      matrix.scales.push_back(scale);
      if (bits == 4) matrix.minimums.push_back(minimum);
      for (const float number : numbers) {
        const double steps = scale == 0.0f ? 0.0 : (double{number} - minimum) / scale;
        matrix.values.push_back(bits == 4 ? RoundTo(steps, 0, kMax4) : RoundTo(steps, -kMax8, kMax8));
      }
    }
  }
  return matrix;
}

void DequantizeRow(const QuantizedMatrix& matrix, std::int64_t row, float* out) {
  const std::int64_t groups = matrix.in_features / kWeightGroup;
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto group = static_cast<std::size_t>(row * groups + g);
    const float scale = matrix.scales[group];
    const float minimum = matrix.minimums.empty() ? 0.0f : matrix.minimums[group];
    const std::int8_t* values = matrix.values.data() + group * kWeightGroup;
    for (std::int64_t i = 0; i < kWeightGroup; ++i) {
      out[g * kWeightGroup + i] = scale * static_cast<float>(values[i]) + minimum;
    }
  }
}

}  // namespace scd
