#include "common/wire/payload_numbers.h"

#include <cstring>

#include "common/wire/payload_format.h"
#include "kernels/dtype.h"
#include "kernels/grouped_integers.h"

namespace scd {

static_assert(kQuantGroup == kIntegerGroup);

GroupedIntegers IntegersOf(Codec codec, CodeKind kind, std::int64_t rank) {
  return {.bits = CodecBits(codec), .by_column = kind == CodeKind::kK, .columns = rank};
}

std::string EncodeNumbers(Codec codec, CodeKind kind, const float* rows, std::int64_t num_tokens,
                          std::int64_t rank) {
  std::string out;
  out.reserve(static_cast<std::size_t>(PayloadBytes(codec, kind, num_tokens, rank)));
  if (codec == Codec::kF32) {
    out.assign(reinterpret_cast<const char*>(rows),
               static_cast<std::size_t>(num_tokens * rank) * sizeof(float));
  } else if (codec == Codec::kBF16) {
    for (std::int64_t i = 0; i < num_tokens * rank; ++i) {
      const std::uint16_t bits = FloatToBf16(rows[i]);
      out.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    }
  } else {
    const GroupedIntegers layout = IntegersOf(codec, kind, rank);
    out.resize(static_cast<std::size_t>(layout.BytesOf(num_tokens)));
    PackIntegers(layout, rows, num_tokens, reinterpret_cast<std::uint8_t*>(out.data()));
  }
  return out;
}

void DecodeNumbers(const LayerCode& code, std::int64_t begin, std::int64_t count, float* out) {
  if (IsQuantized(code.codec)) {
    UnpackIntegers(IntegersOf(code.codec, code.kind, code.rank),
                   reinterpret_cast<const std::uint8_t*>(code.payload.data()), begin, count, out);
    return;
  }
  const std::int64_t numbers = count * code.rank;
  const char* const from = code.payload.data() + PayloadBytes(code.codec, code.kind, begin, code.rank);
  if (code.codec == Codec::kF32) {
    std::memcpy(out, from, static_cast<std::size_t>(numbers) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < numbers; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof(bits));
    out[i] = Bf16ToFloat(bits);
  }
}

}  // namespace scd
