#include "common/wire/payload_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/wire/payload_format.h"
#include "kernels/dtype.h"

namespace scd {
namespace {

constexpr float kLargestF16 = 65504.0f;

struct Scale {
  float scale = 0;
  float minimum = 0;
};

std::uint16_t ToF16(float value) {
  return FloatToF16(std::clamp(value, -kLargestF16, kLargestF16));
}

// Of `count` numbers, `stride` apart; rounded to what the payload holds.
Scale ScaleOf(const float* numbers, std::int64_t count, std::int64_t stride, float levels) {
  float least = numbers[0], most = numbers[0];
  for (std::int64_t i = 1; i < count; ++i) {
    least = std::min(least, numbers[i * stride]);
    most = std::max(most, numbers[i * stride]);
  }
  const float minimum = F16ToFloat(ToF16(least));
  return {.scale = F16ToFloat(ToF16((most - minimum) / levels)), .minimum = minimum};
}

void Append16(std::string& out, float value) {
  const std::uint16_t bits = FloatToF16(value);
  out.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
}

float Read16(const char* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return F16ToFloat(bits);
}

std::uint8_t Quantise(float value, const Scale& scale, float levels) {
  if (scale.scale <= 0) return 0;
  return static_cast<std::uint8_t>(
      std::clamp(std::nearbyint((value - scale.minimum) / scale.scale), 0.0f, levels));
}

// How a granule lays out its groups: the scale of column c of any of its rows is number GroupOf(c).
struct Grouping {
  Grouping(CodeKind kind, std::int64_t rank_columns)
      : by_column(kind == CodeKind::kK),
        rank(rank_columns),
        num_groups(by_column ? rank : (rank + kQuantGroup - 1) / kQuantGroup) {}

  std::int64_t GroupOf(std::int64_t column) const { return by_column ? column : column / kQuantGroup; }
  std::size_t header_bytes() const { return static_cast<std::size_t>(num_groups) * 4; }

  const bool by_column;
  const std::int64_t rank;
  const std::int64_t num_groups;
};

void EncodeGranule(Codec codec, const Grouping& grouping, const float* rows, std::int64_t num_tokens,
                   std::vector<Scale>& scales, std::string& out) {
  const float levels = codec == Codec::kInt8 ? 255.0f : 15.0f;
  scales.clear();
  for (std::int64_t g = 0; g < grouping.num_groups; ++g) {
    const std::int64_t column = grouping.by_column ? g : g * kQuantGroup;
    scales.push_back(grouping.by_column
                         ? ScaleOf(rows + column, num_tokens, grouping.rank, levels)
                         : ScaleOf(rows + column, std::min(kQuantGroup, grouping.rank - column), 1, levels));
  }
  for (const Scale& scale : scales) Append16(out, scale.scale);
  for (const Scale& scale : scales) Append16(out, scale.minimum);
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const float* const row = rows + t * grouping.rank;
    const auto number = [&](std::int64_t column) {
      return column < grouping.rank
                 ? Quantise(row[column], scales[static_cast<std::size_t>(grouping.GroupOf(column))], levels)
                 : std::uint8_t{0};
    };
    if (codec == Codec::kInt8) {
      for (std::int64_t c = 0; c < grouping.rank; ++c) out.push_back(static_cast<char>(number(c)));
    } else {
      for (std::int64_t c = 0; c < grouping.rank; c += 2) {
        out.push_back(static_cast<char>(number(c) | number(c + 1) << 4));
      }
    }
  }
}

// `count` rows from `first` on of the granule that begins at `granule`; `scales` is working memory.
void DecodeGranule(Codec codec, const Grouping& grouping, const char* granule, std::int64_t first,
                   std::int64_t count, std::vector<Scale>& scales, float* out) {
  const char* const minima = granule + grouping.header_bytes() / 2;
  scales.clear();
  for (std::int64_t g = 0; g < grouping.num_groups; ++g) {
    scales.push_back({.scale = Read16(granule + 2 * g), .minimum = Read16(minima + 2 * g)});
  }
  const std::int64_t row_bytes = (grouping.rank * CodecBits(codec) + 7) / 8;
  const char* numbers = granule + grouping.header_bytes() + first * row_bytes;
  for (std::int64_t row = 0; row < count; ++row, numbers += row_bytes, out += grouping.rank) {
    for (std::int64_t c = 0; c < grouping.rank; ++c) {
      const Scale& scale = scales[static_cast<std::size_t>(grouping.GroupOf(c))];
      const auto byte = static_cast<std::uint8_t>(numbers[codec == Codec::kInt8 ? c : c / 2]);
      const int q = codec == Codec::kInt8 ? byte : (byte >> (4 * (c % 2))) & 0xF;
      out[c] = scale.minimum + static_cast<float>(q) * scale.scale;
    }
  }
}

void DecodeIntegers(const LayerCode& code, std::int64_t begin, std::int64_t count, float* out) {
  const Grouping grouping(code.kind, code.rank);
  const std::int64_t granule_tokens = GroupTokens(code.codec, code.kind);
  std::vector<Scale> scales;
  for (std::int64_t t = begin; t < begin + count;) {
    const std::int64_t first = t % granule_tokens;
    const std::int64_t rows = std::min(granule_tokens - first, begin + count - t);
    const char* const granule =
        code.payload.data() + PayloadBytes(code.codec, code.kind, t - first, code.rank);
    DecodeGranule(code.codec, grouping, granule, first, rows, scales, out + (t - begin) * code.rank);
    t += rows;
  }
}

}  // namespace

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
    const Grouping grouping(kind, rank);
    const std::int64_t granule = GroupTokens(codec, kind);
    std::vector<Scale> scales;
    for (std::int64_t begin = 0; begin < num_tokens; begin += granule) {
      EncodeGranule(codec, grouping, rows + begin * rank, std::min(granule, num_tokens - begin), scales, out);
    }
  }
  return out;
}

void DecodeNumbers(const LayerCode& code, std::int64_t begin, std::int64_t count, float* out) {
  if (IsQuantized(code.codec)) return DecodeIntegers(code, begin, count, out);
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
