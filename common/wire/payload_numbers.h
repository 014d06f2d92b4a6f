// Numbers <-> the payload of a code, on the host, for codecs of fixed size (payload_format.h,
// docs/formats.md).
//
// Integers: q = round((x - minimum) / scale) in [0, 2^bits - 1], x_hat = minimum + q scale, with scale and
// minimum of each group rounded to f16 before they are used. Numbers beyond f16's range become its largest.
#ifndef SCD_COMMON_WIRE_PAYLOAD_NUMBERS_H_
#define SCD_COMMON_WIRE_PAYLOAD_NUMBERS_H_

#include <cstdint>
#include <string>

#include "common/config/codec.h"
#include "common/config/layer_plan.h"
#include "common/wire/layer_code.h"
#include "kernels/grouped_integers.h"

namespace scd {

// How a payload of kInt8 or kInt4 lies in its bytes.
GroupedIntegers IntegersOf(Codec codec, CodeKind kind, std::int64_t rank);

// rows: [num_tokens, rank] f32, finite.
std::string EncodeNumbers(Codec codec, CodeKind kind, const float* rows, std::int64_t num_tokens,
                          std::int64_t rank);

// Tokens [begin, begin + count) of a code whose payload has the right size -> out [count, rank] f32.
void DecodeNumbers(const LayerCode& code, std::int64_t begin, std::int64_t count, float* out);

}  // namespace scd

#endif  // SCD_COMMON_WIRE_PAYLOAD_NUMBERS_H_
