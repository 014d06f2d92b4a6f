#include "kernels/cpu/dense_product.h"

#include <algorithm>

#include "kernels/cpu/first_error.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/sgemm.h"

namespace scd::cpu {
namespace {

// Below this many multiplications waking another thread costs more than it saves.
constexpr std::int64_t kMinTaskProducts = 1 << 17;
// Pieces end at multiples of this, which keeps the inner loops of the product whole.
constexpr std::int64_t kGranule = 48;

// The distance of rows; views of one row may carry any stride.
std::int64_t RowStride(const ConstTensorView& view) {
  return std::max(view.stride(0), view.dim(1));
}

}  // namespace

absl::Status DenseProduct(ThreadPool& pool, const ConstTensorView& a, const ConstTensorView& b,
                          const TensorView& c, const GemmOptions& options) {
  const std::int64_t m = c.dim(0);
  const std::int64_t n = c.dim(1);
  const std::int64_t k = a.dim(options.transpose_a ? 0 : 1);
  if (m == 0) return absl::OkStatus();
  const std::int64_t worthwhile = std::max<std::int64_t>(1, m * n * k / kMinTaskProducts);
  const std::int64_t pieces = std::min<std::int64_t>(pool.num_threads(), worthwhile);
  // Each piece repacks all of the operand that is not divided: divide the larger one.
  const bool by_rows = m > n;
  const Partition partition(by_rows ? m : n, pieces, kGranule);
  const std::int64_t a_step = options.transpose_a ? 1 : RowStride(a);
  const std::int64_t b_step = options.transpose_b ? RowStride(b) : 1;
  FirstError error;
  pool.ParallelFor(partition.num_pieces(), [&](std::int64_t i) {
    const Range range = partition[i];
    const std::int64_t length = range.end - range.begin;
    const std::int64_t row = by_rows ? range.begin : 0;
    const std::int64_t column = by_rows ? 0 : range.begin;
    const SgemmOperand a_part{a.as<float>() + row * a_step, RowStride(a), options.transpose_a};
    const SgemmOperand b_part{b.as<float>() + column * b_step, RowStride(b), options.transpose_b};
    error.Update(Sgemm(by_rows ? length : m, by_rows ? n : length, k, options.alpha, a_part, b_part,
                       options.beta, c.as<float>() + row * RowStride(c) + column, RowStride(c)));
  });
  return error.status();
}

}  // namespace scd::cpu
