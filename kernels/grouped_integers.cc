#include "kernels/grouped_integers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

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

// Of `count` numbers, `stride` apart; rounded to what the bytes hold.
Scale ScaleOf(const float* numbers, std::int64_t count, std::int64_t stride, float levels) {
  float least = numbers[0], most = numbers[0];
  for (std::int64_t i = 1; i < count; ++i) {
    least = std::min(least, numbers[i * stride]);
    most = std::max(most, numbers[i * stride]);
  }
  const float minimum = F16ToFloat(ToF16(least));
  return {.scale = F16ToFloat(ToF16((most - minimum) / levels)), .minimum = minimum};
}

void Write16(float value, std::uint8_t* bytes) {
  const std::uint16_t bits = FloatToF16(value);
  std::memcpy(bytes, &bits, sizeof(bits));
}

float Read16(const std::uint8_t* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return F16ToFloat(bits);
}

std::uint8_t Nearest(float value, const Scale& scale, float levels) {
  if (scale.scale <= 0) return 0;
  return static_cast<std::uint8_t>(
      std::clamp(std::nearbyint((value - scale.minimum) / scale.scale), 0.0f, levels));
}

std::size_t GroupOf(const GroupedIntegers& layout, std::int64_t column) {
  return static_cast<std::size_t>(layout.by_column ? column : column / kIntegerGroup);
}

void PackGranule(const GroupedIntegers& layout, const float* rows, std::int64_t num_rows,
                 std::vector<Scale>& scales, std::uint8_t* bytes) {
  const auto levels = static_cast<float>(layout.levels());
  scales.clear();
  for (std::int64_t g = 0; g < layout.num_groups(); ++g) {
    const std::int64_t column = layout.by_column ? g : g * kIntegerGroup;
    scales.push_back(layout.by_column ? ScaleOf(rows + column, num_rows, layout.columns, levels)
                                      : ScaleOf(rows + column,
                                                std::min(kIntegerGroup, layout.columns - column), 1, levels));
  }
  std::uint8_t* const minima = bytes + layout.header_bytes() / 2;
  for (std::size_t g = 0; g < scales.size(); ++g) {
    Write16(scales[g].scale, bytes + 2 * g);
    Write16(scales[g].minimum, minima + 2 * g);
  }
  std::uint8_t* to = bytes + layout.header_bytes();
  for (std::int64_t r = 0; r < num_rows; ++r, to += layout.row_bytes()) {
    const float* const row = rows + r * layout.columns;
    const auto number = [&](std::int64_t column) {
      return column < layout.columns ? Nearest(row[column], scales[GroupOf(layout, column)], levels)
                                     : std::uint8_t{0};
    };
    for (std::int64_t i = 0; i < layout.row_bytes(); ++i) {
      to[i] =
          layout.bits == 8 ? number(i) : static_cast<std::uint8_t>(number(2 * i) | number(2 * i + 1) << 4);
    }
  }
}

void UnpackGranule(const GroupedIntegers& layout, const std::uint8_t* granule, std::int64_t first,
                   std::int64_t count, std::vector<Scale>& scales, float* out) {
  const std::uint8_t* const minima = granule + layout.header_bytes() / 2;
  scales.clear();
  for (std::int64_t g = 0; g < layout.num_groups(); ++g) {
    scales.push_back({.scale = Read16(granule + 2 * g), .minimum = Read16(minima + 2 * g)});
  }
  const std::uint8_t* numbers = granule + layout.header_bytes() + first * layout.row_bytes();
  for (std::int64_t row = 0; row < count; ++row, numbers += layout.row_bytes(), out += layout.columns) {
    for (std::int64_t c = 0; c < layout.columns; ++c) {
      const Scale& scale = scales[GroupOf(layout, c)];
      const int integer = layout.bits == 8 ? numbers[c] : (numbers[c / 2] >> (4 * (c % 2))) & 0xF;
      out[c] = scale.minimum + static_cast<float>(integer) * scale.scale;
    }
  }
}

}  // namespace

void PackIntegers(const GroupedIntegers& layout, const float* rows, std::int64_t num_rows,
                  std::uint8_t* bytes) {
  std::vector<Scale> scales;
  for (std::int64_t begin = 0; begin < num_rows; begin += layout.granule_rows()) {
    const std::int64_t count = std::min(layout.granule_rows(), num_rows - begin);
    PackGranule(layout, rows + begin * layout.columns, count, scales, bytes + layout.BytesOf(begin));
  }
}

void UnpackIntegers(const GroupedIntegers& layout, const std::uint8_t* bytes, std::int64_t first,
                    std::int64_t count, float* rows) {
  std::vector<Scale> scales;
  for (std::int64_t r = first; r < first + count;) {
    const std::int64_t into = r % layout.granule_rows();
    const std::int64_t here = std::min(layout.granule_rows() - into, first + count - r);
    UnpackGranule(layout, bytes + layout.BytesOf(r - into), into, here, scales,
                  rows + (r - first) * layout.columns);
    r += here;
  }
}

}  // namespace scd
