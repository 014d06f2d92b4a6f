#include "common/model/weights_format.h"

namespace scd {

std::string_view WeightsFormatName(WeightsFormat format) {
  switch (format) {
    case WeightsFormat::kAuto:
      return "auto";
    case WeightsFormat::kF32:
      return "f32";
    case WeightsFormat::kBF16:
      return "bf16";
    case WeightsFormat::kInt8:
      return "int8";
    case WeightsFormat::kInt4:
      return "int4";
  }
  return "unknown";
}

}  // namespace scd
