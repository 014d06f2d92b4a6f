// Weights in the layout that oneDNN chooses: it does the products, slice by slice of the columns.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/first_error.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/partition.h"
#include "kernels/status_macros.h"

namespace scd::cpu {
namespace {

// Slices are multiples of the library's widest block of columns.
constexpr std::int64_t kSliceGranule = 64;
// Rows are cut into blocks of this size, the rest into a multiple of kRowGranule and what remains, so that a
// few dozen shapes cover every number of rows and each is compiled once.
constexpr std::int64_t kRowBlock = 256;
constexpr std::int64_t kRowGranule = 16;

std::vector<Range> RowBlocks(std::int64_t rows) {
  std::vector<Range> blocks;
  std::int64_t begin = 0;
  while (begin < rows) {
    const std::int64_t left = rows - begin;
    const std::int64_t size =
        left < kRowGranule ? left : std::min(kRowBlock, left / kRowGranule * kRowGranule);
    blocks.push_back({begin, begin + size});
    begin += size;
  }
  return blocks;
}

class OneDnnWeight final : public CpuWeight {
 public:
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Create(const ConstTensorView& weight,
                                                           const ConstTensorView& bias, DType dtype,
                                                           int num_slices) {
    auto packed = std::unique_ptr<OneDnnWeight>(new OneDnnWeight(weight, dtype, num_slices));
    SCD_RETURN_IF_ERROR(packed->SetBias(bias));
    for (std::int64_t i = 0; i < packed->columns_.num_pieces(); ++i) {
      const Range range = packed->columns_[i];
      const Shape shape = {range.end - range.begin, weight.dim(1)};
      auto values = packed->AllocateElements(shape.num_elements());
      if (values == nullptr) return absl::ResourceExhaustedError("no memory for a packed weight");
      ConvertRows(weight.rows(range.begin, shape[0]), TensorView(values.get(), dtype, shape), 0, shape[0]);
      SCD_ASSIGN_OR_RETURN(auto slice, OneDnnMatMul::Create(values.get(), dtype, shape[0], shape[1]));
      packed->slices_.push_back(std::move(slice));
    }
    return packed;
  }

  absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out,
                        bool accumulate) const override {
    const std::int64_t rows = x.dim(0);
    const auto elements = AllocateElements(rows * in_features());
    if (elements == nullptr) return absl::ResourceExhaustedError("no memory for the operands of a product");
    const TensorView converted_x(elements.get(), dtype_, x.shape());
    const Partition row_parts(rows, pool.num_threads(), kRowBlock);
    pool.ParallelFor(row_parts.num_pieces(), [&](std::int64_t i) {
      ConvertRows(x, converted_x, row_parts[i].begin, row_parts[i].end);
    });

    const std::vector<Range> blocks = RowBlocks(rows);
    const auto num_blocks = static_cast<std::int64_t>(blocks.size());
    FirstError error;
    pool.ParallelFor(columns_.num_pieces() * num_blocks, [&](std::int64_t i) {
      const Range columns = columns_[i / num_blocks];
      const Range block = blocks[static_cast<std::size_t>(i % num_blocks)];
      const std::int64_t count = block.end - block.begin;
      ApplyBias(out.rows(block.begin, count), columns.begin, columns.end, accumulate);
      error.Update(slices_[static_cast<std::size_t>(i / num_blocks)]->Multiply(
          converted_x.rows(block.begin, count).data(), count, out.row<float>(block.begin) + columns.begin,
          std::max(out.stride(0), out.dim(1)), accumulate || bias() != nullptr));
    });
    return error.status();
  }

 private:
  OneDnnWeight(const ConstTensorView& weight, DType dtype, int num_slices)
      : CpuWeight(weight.dim(0), weight.dim(1)),
        dtype_(dtype),
        columns_(weight.dim(0), num_slices, kSliceGranule) {}

  // Memory for `count` elements of dtype_; nullptr where there is none.
  hwy::AlignedFreeUniquePtr<std::byte[]> AllocateElements(std::int64_t count) const {
    return hwy::AllocateAligned<std::byte>(static_cast<std::size_t>(count) * DTypeBytes(dtype_));
  }

  const DType dtype_;
  const Partition columns_;
  std::vector<std::unique_ptr<OneDnnMatMul>> slices_;  // one for each piece of columns_
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackOneDnnWeight(const ConstTensorView& weight,
                                                            const ConstTensorView& bias, DType dtype,
                                                            int num_slices) {
  return OneDnnWeight::Create(weight, bias, dtype, num_slices);
}

}  // namespace scd::cpu
