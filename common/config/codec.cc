#include "common/config/codec.h"

namespace scd {

std::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kBF16:
      return "bf16";
    case Codec::kF32:
      return "f32";
    case Codec::kInt8:
      return "int8";
    case Codec::kInt4:
      return "int4";
    case Codec::kEntropy:
      return "entropy";
  }
  return "unknown";
}

std::optional<Codec> CodecByName(std::string_view name) {
  for (const Codec codec : kAllCodecs) {
    if (CodecName(codec) == name) return codec;
  }
  return std::nullopt;
}

std::int64_t CodecBits(Codec codec) {
  switch (codec) {
    case Codec::kBF16:
      return 16;
    case Codec::kF32:
      return 32;
    case Codec::kInt8:
      return 8;
    case Codec::kInt4:
      return 4;
    case Codec::kEntropy:
      break;
  }
  return 0;
}

}  // namespace scd
