// Rows of numbers as integers of 8 or 4 bits in groups of 32 with a scale and a minimum, as codes travel
// (docs/formats.md): number = minimum + integer * scale.
//
// Bytes are a sequence of granules, each of 32 rows where groups go down a column, else of one row: the
// scales of its groups as f16, their minima as f16, then its rows, each of whole bytes. Of two integers in a
// byte the first is the lower half. The last granule may have fewer rows.
#ifndef SCD_KERNELS_GROUPED_INTEGERS_H_
#define SCD_KERNELS_GROUPED_INTEGERS_H_

#include <cstdint>

namespace scd {

// Numbers of a group.
inline constexpr std::int64_t kIntegerGroup = 32;

struct GroupedIntegers {
  std::int64_t bits = 8;   // 8 or 4
  bool by_column = false;  // groups of rows of one column; else of columns of one row
  std::int64_t columns = 0;

  std::int64_t levels() const { return (std::int64_t{1} << bits) - 1; }
  std::int64_t granule_rows() const { return by_column ? kIntegerGroup : 1; }
  std::int64_t num_groups() const {
    return by_column ? columns : (columns + kIntegerGroup - 1) / kIntegerGroup;
  }
  std::int64_t header_bytes() const { return 4 * num_groups(); }
  std::int64_t row_bytes() const { return (columns * bits + 7) / 8; }
  // Of `rows` rows from the first of a granule on.
  std::int64_t BytesOf(std::int64_t rows) const {
    return (rows + granule_rows() - 1) / granule_rows() * header_bytes() + rows * row_bytes();
  }
};

// rows [num_rows, columns] -> BytesOf(num_rows) bytes. Minima and scales are clamped to what f16 holds.
void PackIntegers(const GroupedIntegers& layout, const float* rows, std::int64_t num_rows,
                  std::uint8_t* bytes);

// Rows [first, first + count) of what `bytes` hold -> rows [count, columns].
void UnpackIntegers(const GroupedIntegers& layout, const std::uint8_t* bytes, std::int64_t first,
                    std::int64_t count, float* rows);

}  // namespace scd

#endif  // SCD_KERNELS_GROUPED_INTEGERS_H_
