// Codes with known numbers for the tests of the wire.
#ifndef SCD_TESTS_COMMON_WIRE_TEST_CODES_H_
#define SCD_TESTS_COMMON_WIRE_TEST_CODES_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "common/wire/layer_code.h"
#include "kernels/dtype.h"

namespace scd::testing {

// Number i of the payload is i * 0.25 - 3, exact in both codecs up to 500 numbers and rounded after that.
inline LayerCode MakeCode(std::int64_t layer, CodeKind kind, std::int64_t first_token,
                          std::int64_t num_tokens, std::int64_t rank, Codec codec = Codec::kBF16) {
  LayerCode code;
  code.layer = layer;
  code.kind = kind;
  code.first_token = first_token;
  code.num_tokens = num_tokens;
  code.rank = rank;
  code.codec = codec;
  for (std::int64_t i = 0; i < num_tokens * rank; ++i) {
    const float value = static_cast<float>(i) * 0.25f - 3.0f;
    if (codec == Codec::kF32) {
      code.payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      const std::uint16_t half = FloatToBf16(value);
      code.payload.append(reinterpret_cast<const char*>(&half), sizeof(half));
    }
  }
  return code;
}

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_WIRE_TEST_CODES_H_
