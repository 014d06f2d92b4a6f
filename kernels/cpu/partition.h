// Cutting a range of rows, columns or elements into tasks.
#ifndef SCD_KERNELS_CPU_PARTITION_H_
#define SCD_KERNELS_CPU_PARTITION_H_

#include <algorithm>
#include <cstdint>

namespace scd::cpu {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// [0, total) in pieces of one size (the last may be smaller), that size a multiple of `granule`.
class Partition {
 public:
  Partition(std::int64_t total, std::int64_t wanted_pieces, std::int64_t granule)
      : total_(total),
        piece_(RoundUp(std::max<std::int64_t>(1, CeilDiv(total, std::max<std::int64_t>(1, wanted_pieces))),
                       granule)) {}

  std::int64_t num_pieces() const { return CeilDiv(total_, piece_); }
  Range operator[](std::int64_t i) const { return {i * piece_, std::min(total_, (i + 1) * piece_)}; }

  static std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
  static std::int64_t RoundUp(std::int64_t a, std::int64_t multiple) {
    return CeilDiv(a, multiple) * multiple;
  }

 private:
  std::int64_t total_;
  std::int64_t piece_;
};

}  // namespace scd::cpu

#endif  // SCD_KERNELS_CPU_PARTITION_H_
