#include "calibrate/patch_fit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "calibrate/linear_fit.h"
#include "calibrate/mapped_rows.h"
#include "calibrate/pair_moments.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Reads the attention inputs of one layer, piece by piece: on_piece(producer rows, consumer rows).
template <typename OnPiece>
absl::Status ForEachPiece(const TraceStore& store, std::int64_t layer, bool held_out, OnPiece on_piece) {
  const std::int64_t hidden = store.shape().hidden;
  std::vector<float> a, b;
  for (const TracePiece& piece : store.pieces()) {
    if (piece.held_out != held_out) continue;
    SCD_RETURN_IF_ERROR(store.ReadHidden(piece, layer, PairSide::kProducer, &a));
    SCD_RETURN_IF_ERROR(store.ReadHidden(piece, layer, PairSide::kConsumer, &b));
    SCD_RETURN_IF_ERROR(
        on_piece(MatrixView(a.data(), piece.rows, hidden), MatrixView(b.data(), piece.rows, hidden)));
  }
  return absl::OkStatus();
}

struct PreparedRows {
  std::unique_ptr<MappedRows> x;
  std::unique_ptr<MappedRows> y;
  AlignerRows view() const { return {x->view(), y->view()}; }
};

// x is still z; y is scaled.
absl::StatusOr<PreparedRows> Prepare(HostMath& math, const TraceStore& store, std::int64_t layer,
                                     bool held_out, const AffineTranslator& linear, std::int64_t rank,
                                     const std::vector<float>& spread, const std::string& folder) {
  PreparedRows out;
  const std::int64_t rows = store.NumRows(held_out);
  SCD_ASSIGN_OR_RETURN(out.x, MappedRows::Create(folder, rows, rank));
  SCD_ASSIGN_OR_RETURN(out.y, MappedRows::Create(folder, rows, linear.out));
  std::int64_t next = 0;
  SCD_RETURN_IF_ERROR(
      ForEachPiece(store, layer, held_out, [&](ConstTensorView a, ConstTensorView b) -> absl::Status {
        const TensorView x = out.x->view().rows(next, a.dim(0));
        const TensorView y = out.y->view().rows(next, a.dim(0));
        next += a.dim(0);
        SCD_RETURN_IF_ERROR(EncodeRows(math, linear, rank, a, x));
        SCD_RETURN_IF_ERROR(DecodeRows(math, linear, rank, x, y));
        for (std::int64_t r = 0; r < a.dim(0); ++r) {
          for (std::int64_t i = 0; i < linear.out; ++i) {
            y.row<float>(r)[i] =
                (b.row<float>(r)[i] - y.row<float>(r)[i]) / spread[static_cast<std::size_t>(i)];
          }
        }
        return absl::OkStatus();
      }));
  return out;
}

// Errors of the folded network on held-out rows, in the units of H itself.
absl::Status Measure(HostMath& math, const TraceStore& store, std::int64_t layer,
                     const AffineTranslator& linear, AlignerNetwork& network) {
  RelativeError linear_error, error;
  std::vector<float> z, predicted;
  SCD_RETURN_IF_ERROR(
      ForEachPiece(store, layer, true, [&](ConstTensorView a, ConstTensorView b) -> absl::Status {
        z.resize(static_cast<std::size_t>(a.dim(0) * network.in));
        predicted.resize(static_cast<std::size_t>(a.dim(0) * linear.out));
        const TensorView z_view = MatrixView(z.data(), a.dim(0), network.in);
        const TensorView predicted_view = MatrixView(predicted.data(), a.dim(0), linear.out);
        SCD_RETURN_IF_ERROR(EncodeRows(math, linear, network.in, a, z_view));
        SCD_RETURN_IF_ERROR(DecodeRows(math, linear, network.in, z_view, predicted_view));
        linear_error.Add(predicted_view, b, linear.decoder_bias);
        SCD_RETURN_IF_ERROR(AddNetwork(math, network, z_view, predicted_view));
        error.Add(predicted_view, b, linear.decoder_bias);
        return absl::OkStatus();
      }));
  network.linear_error = linear_error.value();
  network.error = error.value();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LayerPatch> FitPatch(HostMath& math, const TraceStore& store, std::int64_t layer,
                                    const PatchOptions& options, const std::string& folder,
                                    std::stop_token stop, const std::function<void(double)>& on_progress) {
  const std::int64_t hidden = store.shape().hidden;
  PairMoments sums(hidden, hidden, false);
  std::vector<double> sum_b(static_cast<std::size_t>(hidden)), square_b(static_cast<std::size_t>(hidden));
  SCD_RETURN_IF_ERROR(
      ForEachPiece(store, layer, false, [&](ConstTensorView a, ConstTensorView b) -> absl::Status {
        if (stop.stop_requested()) return absl::CancelledError("stopped during the Patch fits");
        for (std::int64_t r = 0; r < b.dim(0); ++r) {
          for (std::int64_t i = 0; i < hidden; ++i) {
            const double value = b.row<float>(r)[i];
            sum_b[static_cast<std::size_t>(i)] += value;
            square_b[static_cast<std::size_t>(i)] += value * value;
          }
        }
        return sums.Add(math, a, b);
      }));
  SCD_ASSIGN_OR_RETURN(const Moments moments, sums.Finish());
  SCD_ASSIGN_OR_RETURN(const LinearFit fit,
                       FitReducedRank(moments, options.ranks.back(), options.ridge_lambda));
  LayerPatch out{.layer = layer, .linear = MakeTranslator(fit), .ranks = {}};

  std::vector<float> spread;
  const double n = static_cast<double>(moments.count);
  for (std::size_t i = 0; i < sum_b.size(); ++i) {
    const double variance = square_b[i] / n - (sum_b[i] / n) * (sum_b[i] / n);
    spread.push_back(variance > 1e-30 ? static_cast<float>(std::sqrt(variance)) : 1.0f);
  }
  for (std::size_t i = 0; i < options.ranks.size(); ++i) {
    const std::int64_t rank = options.ranks[i];
    SCD_ASSIGN_OR_RETURN(const PreparedRows rows,
                         Prepare(math, store, layer, false, out.linear, rank, spread, folder));
    SCD_ASSIGN_OR_RETURN(const PreparedRows held_out,
                         Prepare(math, store, layer, true, out.linear, rank, spread, folder));
    const float gain = RootMeanSquare(rows.x->view());
    DivideBy(rows.x->view(), gain);
    DivideBy(held_out.x->view(), gain);
    const auto on_step = [&](std::int64_t done, std::int64_t total) {
      const double of_rank = static_cast<double>(done) / static_cast<double>(total);
      on_progress((static_cast<double>(i) + of_rank) / static_cast<double>(options.ranks.size()));
    };
    SCD_ASSIGN_OR_RETURN(const TrainedAligner trained,
                         TrainAligner(math, rows.view(), held_out.view(), options.training, stop, on_step));
    out.ranks.push_back(FoldScales(trained, gain, spread));
    SCD_RETURN_IF_ERROR(Measure(math, store, layer, out.linear, out.ranks.back()));
  }
  on_progress(1.0);
  return out;
}

}  // namespace scd
