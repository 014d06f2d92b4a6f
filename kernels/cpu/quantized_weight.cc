// Weights in 4 or 8 bits: few rows are multiplied in integers, for many the weights are widened, some columns
// at a time, for a product of floats by oneDNN.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/first_error.h"
#include "kernels/cpu/onednn_products.h"
#include "kernels/cpu/quantized_panel.h"
#include "kernels/cpu/quantized_product.h"
#include "kernels/status_macros.h"

namespace scd::cpu {
namespace {

// Above this many rows activations are not rounded to 8 bits.
constexpr std::int64_t kFewQuantizedRows = 64;
// Widened columns stay in the second-level cache while they are multiplied.
constexpr std::int64_t kPanelBytes = 256 << 10;

class QuantizedWeight final : public CpuWeight {
 public:
  static absl::StatusOr<std::unique_ptr<CpuWeight>> Create(const QuantizedMatrix& weight,
                                                           const ConstTensorView& bias,
                                                           absl::Span<const std::int64_t> cuts, DType dtype) {
    // Before the work of packing.
    SCD_RETURN_IF_ERROR(OneDnnProducts(dtype, weight.in_features).CheckPlain());
    SCD_ASSIGN_OR_RETURN(QuantizedBlocks blocks, QuantizedBlocks::Create(weight, cuts));
    auto packed =
        std::unique_ptr<QuantizedWeight>(new QuantizedWeight(weight, cuts, std::move(blocks), dtype));
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
  QuantizedWeight(const QuantizedMatrix& weight, absl::Span<const std::int64_t> cuts, QuantizedBlocks blocks,
                  DType dtype)
      : CpuWeight(weight.out_features, weight.in_features, cuts),
        dtype_(dtype),
        blocks_(std::move(blocks)),
        products_(dtype, weight.in_features) {}

  // As FewRowsPieces, in blocks; of some numbers of pieces the one that divides them most evenly.
  Partition PiecesOf(Range blocks, int num_threads) const {
    constexpr std::int64_t kPiecesPerThread = 4;
    constexpr std::int64_t kMinPieceWeights = 1 << 15;
    const std::int64_t count = blocks.end - blocks.begin;
    const std::int64_t worthwhile = count * kBlockColumns * in_features() / kMinPieceWeights;
    Partition best(count, std::min<std::int64_t>(num_threads, worthwhile), 1);
    if (num_threads == 1) return best;
    std::int64_t least_work = count;
    for (std::int64_t of_thread = kPiecesPerThread; of_thread > 0; --of_thread) {
      if (of_thread * num_threads > worthwhile) continue;
      const Partition pieces(count, of_thread * num_threads, 1);
      const std::int64_t work =
          Partition::CeilDiv(pieces.num_pieces(), num_threads) * (pieces[0].end - pieces[0].begin);
      if (work < least_work) {
        least_work = work;
        best = pieces;
      }
    }
    return best;
  }

  std::int64_t NumColumns(Range blocks) const {
    return blocks_.ColumnsOf(blocks.end - 1).end - blocks_.ColumnsOf(blocks.begin).begin;
  }

  // Blocks that are widened together, about as many in each; only the last of them may have fewer columns
  // than fit.
  std::vector<Range> PanelsOf(Range blocks, int num_threads) const {
    const std::int64_t block_bytes =
        in_features() * kBlockColumns * static_cast<std::int64_t>(DTypeBytes(dtype_));
    const std::int64_t that_fit = std::max<std::int64_t>(1, kPanelBytes / block_bytes);
    const std::int64_t count = blocks.end - blocks.begin;
    const std::int64_t most =
        Partition::CeilDiv(count, Partition::RoundUp(Partition::CeilDiv(count, that_fit), num_threads));
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

  absl::Status MultiplyPanels(ThreadPool& pool, const ConstTensorView& x, const TensorView& out,
                              Range columns, bool accumulate) const {
    if (dtype_ == DType::kF32 && x.contiguous()) return MultiplyConverted(pool, x, out, columns, accumulate);
    SCD_ASSIGN_OR_RETURN(const ConvertedRows converted, ConvertToOperand(pool, x, dtype_));
    return MultiplyConverted(pool, converted.view, out, columns, accumulate);
  }

  // x in dtype_, contiguous.
  absl::Status MultiplyConverted(ThreadPool& pool, const ConstTensorView& x, const TensorView& out,
                                 Range columns, bool accumulate) const {
    const std::vector<Range> panels = PanelsOf(blocks_.BlocksOf(columns), pool.num_threads());
    FirstError error;
    pool.ParallelFor(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i) {
      const Range blocks = panels[static_cast<std::size_t>(i)];
      const std::int64_t first = blocks_.ColumnsOf(blocks.begin).begin - columns.begin;
      error.Update(MultiplyPanel(blocks, x, out.columns(first, NumColumns(blocks)), accumulate));
    });
    return error.status();
  }

  // out has the columns of `blocks`.
  absl::Status MultiplyPanel(Range blocks, const ConstTensorView& x, const TensorView& out,
                             bool accumulate) const {
    const std::int64_t width = (blocks.end - blocks.begin) * kBlockColumns;
    const auto panel = AllocateElements(dtype_, width * in_features());
    if (panel == nullptr) return absl::ResourceExhaustedError("no memory for the operands of a product");
    if (dtype_ == DType::kBF16) {
      DequantizeBlocks(blocks_, blocks, reinterpret_cast<std::uint16_t*>(panel.get()));
    } else {
      DequantizeBlocks(blocks_, blocks, reinterpret_cast<float*>(panel.get()));
    }
    const std::int64_t columns = out.dim(1);
    const std::int64_t first = blocks_.ColumnsOf(blocks.begin).begin;
    SCD_ASSIGN_OR_RETURN(const dnnl::memory weights, products_.View(panel.get(), columns, width));
    for (const Range& rows : OneDnnRowBlocks(x.dim(0))) {
      const std::int64_t count = rows.end - rows.begin;
      const TensorView out_rows = out.rows(rows.begin, count);
      const bool adds = ApplyBias(out_rows, {first, first + columns}, accumulate);
      SCD_RETURN_IF_ERROR(products_.Multiply(x.rows(rows.begin, count).data(), count, weights, columns,
                                             out_rows.as<float>(), out.stride(0), adds));
    }
    return absl::OkStatus();
  }

  const DType dtype_;  // of widened weights
  const QuantizedBlocks blocks_;
  const OneDnnProducts products_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWeight>> PackQuantizedWeight(const QuantizedMatrix& weight,
                                                               const ConstTensorView& bias,
                                                               absl::Span<const std::int64_t> cuts,
                                                               DType dtype) {
  return QuantizedWeight::Create(weight, bias, cuts, dtype);
}

}  // namespace scd::cpu
