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

// Columns between two cuts, or a part of them, with their product.
struct Slice {
  Range columns;
  std::unique_ptr<OneDnnMatMul> product;
};

class OneDnnWeight final : public CpuWeight {
 public:
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Create(const ConstTensorView& weight,
                                                           const ConstTensorView& bias,
                                                           absl::Span<const std::int64_t> cuts, DType dtype,
                                                           int num_slices) {
    auto packed = std::unique_ptr<OneDnnWeight>(new OneDnnWeight(weight, cuts, dtype));
    SCD_RETURN_IF_ERROR(packed->SetBias(bias));
    std::int64_t begin = 0;
    for (const std::int64_t cut : cuts) {
      SCD_RETURN_IF_ERROR(packed->AddSlices(weight, {begin, cut}, num_slices));
      begin = cut;
    }
    SCD_RETURN_IF_ERROR(packed->AddSlices(weight, {begin, weight.dim(0)}, num_slices));
    return packed;
  }

  std::int64_t size_bytes() const override { return DenseBytes(dtype_); }

  absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out, Range columns,
                        bool accumulate) const override {
    SCD_ASSIGN_OR_RETURN(const ConvertedRows converted, ConvertToOperand(pool, x, dtype_));
    const std::vector<Range> blocks = OneDnnRowBlocks(x.dim(0));
    const auto num_blocks = static_cast<std::int64_t>(blocks.size());
    const auto wanted = SlicesOf(columns);
    FirstError error;
    pool.ParallelFor(static_cast<std::int64_t>(wanted.size()) * num_blocks, [&](std::int64_t i) {
      const Slice& slice = wanted[static_cast<std::size_t>(i / num_blocks)];
      const Range block = blocks[static_cast<std::size_t>(i % num_blocks)];
      const std::int64_t count = block.end - block.begin;
      const TensorView slice_out =
          out.rows(block.begin, count)
              .columns(slice.columns.begin - columns.begin, slice.columns.end - slice.columns.begin);
      const bool adds = ApplyBias(slice_out, slice.columns, accumulate);
      error.Update(slice.product->Multiply(converted.view.rows(block.begin, count).data(), count,
                                           slice_out.as<float>(), std::max(out.stride(0), out.dim(1)), adds));
    });
    return error.status();
  }

 private:
  OneDnnWeight(const ConstTensorView& weight, absl::Span<const std::int64_t> cuts, DType dtype)
      : CpuWeight(weight.dim(0), weight.dim(1), cuts), dtype_(dtype) {}

  absl::Status AddSlices(const ConstTensorView& weight, Range columns, int num_slices) {
    const Partition parts(columns.end - columns.begin, num_slices, kSliceGranule);
    for (std::int64_t i = 0; i < parts.num_pieces(); ++i) {
      const Range range = {columns.begin + parts[i].begin, columns.begin + parts[i].end};
      const Shape shape = {range.end - range.begin, weight.dim(1)};
      auto values = AllocateElements(dtype_, shape.num_elements());
      if (values == nullptr) return absl::ResourceExhaustedError("no memory for a packed weight");
      ConvertRows(weight.rows(range.begin, shape[0]), TensorView(values.get(), dtype_, shape), 0, shape[0]);
      SCD_ASSIGN_OR_RETURN(auto product, OneDnnMatMul::Create(values.get(), dtype_, shape[0], shape[1]));
      slices_.push_back({range, std::move(product)});
    }
    return absl::OkStatus();
  }

  // Those that `columns` consists of.
  absl::Span<const Slice> SlicesOf(Range columns) const {
    const auto first = std::find_if(slices_.begin(), slices_.end(),
                                    [&](const Slice& slice) { return slice.columns.begin >= columns.begin; });
    const auto last = std::find_if(first, slices_.end(),
                                   [&](const Slice& slice) { return slice.columns.begin >= columns.end; });
    return absl::MakeConstSpan(slices_).subspan(static_cast<std::size_t>(first - slices_.begin()),
                                                static_cast<std::size_t>(last - first));
  }

  const DType dtype_;
  std::vector<Slice> slices_;  // of all columns, in order
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackOneDnnWeight(const ConstTensorView& weight,
                                                            const ConstTensorView& bias,
                                                            absl::Span<const std::int64_t> cuts, DType dtype,
                                                            int num_slices) {
  return OneDnnWeight::Create(weight, bias, cuts, dtype, num_slices);
}

}  // namespace scd::cpu
