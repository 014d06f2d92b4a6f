// Weights in 4 or 8 bits: few rows are multiplied in integers, for many the weights are widened, some columns
// at a time, for a product of floats.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/first_error.h"
#include "kernels/cpu/quantized_panel.h"
#include "kernels/cpu/quantized_product.h"
#include "kernels/cpu/sgemm.h"
#include "kernels/status_macros.h"

namespace scd::cpu {
namespace {

// Above this many rows activations are not rounded.
constexpr std::int64_t kFewQuantizedRows = 64;
// Blocks whose widened columns stay in the second-level cache while they are multiplied.
constexpr std::int64_t kPanelBytes = 256 << 10;

class QuantizedWeight final : public CpuWeight {
 public:
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Create(const QuantizedMatrix& weight,
                                                           const ConstTensorView& bias,
                                                           absl::Span<const std::int64_t> cuts) {
    SCD_ASSIGN_OR_RETURN(QuantizedBlocks blocks, QuantizedBlocks::Create(weight, cuts));
    auto packed = std::unique_ptr<QuantizedWeight>(new QuantizedWeight(weight, cuts, std::move(blocks)));
    SCD_RETURN_IF_ERROR(packed->SetBias(bias));
    return packed;
  }

  std::int64_t size_bytes() const override { return blocks_.size_bytes(); }

  absl::Status Multiply(ThreadPool& pool, const ConstTensorView& x, const TensorView& out, Range columns,
                        bool accumulate) const override {
    if (x.dim(0) > kFewQuantizedRows) return MultiplyPanels(pool, x, out, columns, accumulate);
    const QuantizedRows rounded(x);
    if (!rounded.valid()) return absl::ResourceExhaustedError("no memory for the operands of a product");
    const QuantizedProduct product{rounded,       blocks_,       bias(),    out.as<float>(),
                                   out.stride(0), columns.begin, accumulate};
    const Range blocks = blocks_.BlocksOf(columns);
    const Partition pieces = PiecesOf(blocks, pool.num_threads());
    pool.ParallelFor(pieces.num_pieces(), [&](std::int64_t i) {
      MultiplyQuantized(product, {blocks.begin + pieces[i].begin, blocks.begin + pieces[i].end});
    });
    return absl::OkStatus();
  }

 private:
  QuantizedWeight(const QuantizedMatrix& weight, absl::Span<const std::int64_t> cuts, QuantizedBlocks blocks)
      : CpuWeight(weight.out_features, weight.in_features, cuts), blocks_(std::move(blocks)) {}

  // As FewRowsPieces, in blocks.
  Partition PiecesOf(Range blocks, int num_threads) const {
    constexpr std::int64_t kPiecesPerThread = 4;
    constexpr std::int64_t kMinPieceWeights = 1 << 15;
    const std::int64_t count = blocks.end - blocks.begin;
    const std::int64_t worthwhile =
        std::max<std::int64_t>(1, count * kBlockColumns * in_features() / kMinPieceWeights);
    const std::int64_t wanted = num_threads == 1 ? 1 : num_threads * kPiecesPerThread;
    return Partition(count, std::min(wanted, worthwhile), 1);
  }

  // Blocks that are widened together; only the last of them may have fewer columns than fit.
  std::vector<Range> PanelsOf(Range blocks) const {
    const std::int64_t block_bytes = in_features() * kBlockColumns * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t most = std::max<std::int64_t>(1, kPanelBytes / block_bytes);
    std::vector<Range> panels;
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const bool joins = !panels.empty() && panels.back().end - panels.back().begin < most &&
                         NumColumns({block - 1, block}) == kBlockColumns;
      if (joins) {
        panels.back().end = block + 1;
      } else {
        panels.push_back({block, block + 1});
      }
    }
    return panels;
  }

  std::int64_t NumColumns(Range blocks) const {
    return blocks_.ColumnsOf(blocks.end - 1).end - blocks_.ColumnsOf(blocks.begin).begin;
  }

  absl::Status MultiplyPanels(ThreadPool& pool, const ConstTensorView& x, const TensorView& out,
                              Range columns, bool accumulate) const {
    const std::vector<Range> panels = PanelsOf(blocks_.BlocksOf(columns));
    FirstError error;
    pool.ParallelFor(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i) {
      const Range blocks = panels[static_cast<std::size_t>(i)];
      const std::int64_t width = (blocks.end - blocks.begin) * kBlockColumns;
      auto panel = hwy::AllocateAligned<float>(static_cast<std::size_t>(width * in_features()));
      if (panel == nullptr) {
        error.Update(absl::ResourceExhaustedError("no memory for the operands of a product"));
        return;
      }
      DequantizeBlocks(blocks_, blocks, panel.get());
      const std::int64_t begin = blocks_.ColumnsOf(blocks.begin).begin;
      const std::int64_t count = NumColumns(blocks);
      const TensorView panel_out = out.columns(begin - columns.begin, count);
      ApplyBias(panel_out, {begin, begin + count}, accumulate);
      error.Update(Sgemm(out.dim(0), count, in_features(), 1.0f, {x.as<float>(), x.stride(0)},
                         {panel.get(), width}, accumulate || bias() != nullptr ? 1.0f : 0.0f,
                         panel_out.as<float>(), out.stride(0)));
    });
    return error.status();
  }

  const QuantizedBlocks blocks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackQuantizedWeight(const QuantizedMatrix& weight,
                                                               const ConstTensorView& bias,
                                                               absl::Span<const std::int64_t> cuts) {
  return QuantizedWeight::Create(weight, bias, cuts);
}

}  // namespace scd::cpu
