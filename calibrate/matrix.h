// A dense row-major matrix of doubles: how closed forms hand their results around without Eigen in headers.
#ifndef SCD_CALIBRATE_MATRIX_H_
#define SCD_CALIBRATE_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scd {

struct Matrix {
  Matrix() = default;
  Matrix(std::int64_t num_rows, std::int64_t num_columns)
      : rows(num_rows), columns(num_columns), values(static_cast<std::size_t>(num_rows * num_columns)) {}

  double& operator()(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  double operator()(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }

  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_MATRIX_H_
