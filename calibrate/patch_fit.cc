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

// What the network sees: x = z / gain, y = (H_B - linear(z)) / spread.
struct Scales {
  float gain = 1.0f;
  std::vector<float> spread;  // [hidden]
};

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

// The root mean square of all values: of codes, which are centred, their standard deviation.
float RootMeanSquare(ConstTensorView rows) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows.num_elements(); ++i) {
    const double value = rows.as<float>()[i];
    sum += value * value;
  }
  const double mean = rows.num_elements() > 0 ? sum / static_cast<double>(rows.num_elements()) : 0.0;
  return mean > 0 ? static_cast<float>(std::sqrt(mean)) : 1.0f;
}

void Divide(TensorView rows, float by) {
  for (std::int64_t i = 0; i < rows.num_elements(); ++i) rows.as<float>()[i] /= by;
}

// Unscales the network: its input by 1 / gain, its output by spread.
AlignerNetwork Fold(const TrainedAligner& trained, const Scales& scales) {
  const MlpShape& shape = trained.mlp.shape();
  const MlpParts<ConstTensorView> p = SplitParameters(shape, trained.mlp.parameters().data());
  AlignerNetwork out;
  out.rank = shape.in;
  out.epochs = trained.epochs;
  out.mlp_in.assign(p.w_in.as<float>(), p.w_in.as<float>() + shape.width * shape.in);
  out.mlp_in_bias.assign(p.b_in.as<float>(), p.b_in.as<float>() + shape.width);
  out.mlp_out.assign(p.w_out.as<float>(), p.w_out.as<float>() + shape.out * shape.width);
  out.mlp_out_bias.assign(p.b_out.as<float>(), p.b_out.as<float>() + shape.out);
  for (float& w : out.mlp_in) w /= scales.gain;
  for (std::int64_t o = 0; o < shape.out; ++o) {
    const float spread = scales.spread[static_cast<std::size_t>(o)];
    out.mlp_out_bias[static_cast<std::size_t>(o)] *= spread;
    float* row = out.mlp_out.data() + o * shape.width;
    for (std::int64_t i = 0; i < shape.width; ++i) row[i] *= spread;
  }
  return out;
}

// Errors of the folded network on held-out rows, in the units of H itself.
absl::Status Measure(HostMath& math, const TraceStore& store, std::int64_t layer,
                     const AffineTranslator& linear, AlignerNetwork& network) {
  RelativeError linear_error, error;
  const auto width = static_cast<std::int64_t>(network.mlp_in_bias.size());
  std::vector<float> z, h, predicted;
  SCD_RETURN_IF_ERROR(
      ForEachPiece(store, layer, true, [&](ConstTensorView a, ConstTensorView b) -> absl::Status {
        const std::int64_t rows = a.dim(0);
        z.resize(static_cast<std::size_t>(rows * network.rank));
        h.resize(static_cast<std::size_t>(rows * width));
        predicted.resize(static_cast<std::size_t>(rows * linear.out));
        const TensorView z_view = MatrixView(z.data(), rows, network.rank);
        const TensorView h_view = MatrixView(h.data(), rows, width);
        const TensorView predicted_view = MatrixView(predicted.data(), rows, linear.out);
        SCD_RETURN_IF_ERROR(EncodeRows(math, linear, network.rank, a, z_view));
        SCD_RETURN_IF_ERROR(DecodeRows(math, linear, network.rank, z_view, predicted_view));
        linear_error.Add(predicted_view, b, linear.decoder_bias);
        SCD_RETURN_IF_ERROR(math.Gemm(z_view, MatrixView(network.mlp_in.data(), width, network.rank), h_view,
                                      {.transpose_b = true}));
        for (std::int64_t i = 0; i < rows * width; ++i) {
          const float x =
              h[static_cast<std::size_t>(i)] + network.mlp_in_bias[static_cast<std::size_t>(i % width)];
          h[static_cast<std::size_t>(i)] = x / (1.0f + std::exp(-x));
        }
        SCD_RETURN_IF_ERROR(math.Gemm(h_view, MatrixView(network.mlp_out.data(), linear.out, width),
                                      predicted_view, {.transpose_b = true, .beta = 1.0f}));
        for (std::int64_t r = 0; r < rows; ++r) {
          float* row = predicted_view.row<float>(r);
          for (std::int64_t i = 0; i < linear.out; ++i)
            row[i] += network.mlp_out_bias[static_cast<std::size_t>(i)];
        }
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

  Scales scales;
  const double n = static_cast<double>(moments.count);
  for (std::size_t i = 0; i < sum_b.size(); ++i) {
    const double variance = square_b[i] / n - (sum_b[i] / n) * (sum_b[i] / n);
    scales.spread.push_back(variance > 1e-30 ? static_cast<float>(std::sqrt(variance)) : 1.0f);
  }
  for (std::size_t i = 0; i < options.ranks.size(); ++i) {
    const std::int64_t rank = options.ranks[i];
    SCD_ASSIGN_OR_RETURN(const PreparedRows rows,
                         Prepare(math, store, layer, false, out.linear, rank, scales.spread, folder));
    SCD_ASSIGN_OR_RETURN(const PreparedRows held_out,
                         Prepare(math, store, layer, true, out.linear, rank, scales.spread, folder));
    scales.gain = RootMeanSquare(rows.x->view());
    Divide(rows.x->view(), scales.gain);
    Divide(held_out.x->view(), scales.gain);
    const auto on_step = [&](std::int64_t done, std::int64_t total) {
      const double of_rank = static_cast<double>(done) / static_cast<double>(total);
      on_progress((static_cast<double>(i) + of_rank) / static_cast<double>(options.ranks.size()));
    };
    SCD_ASSIGN_OR_RETURN(const TrainedAligner trained,
                         TrainAligner(math, rows.view(), held_out.view(), options.training, stop, on_step));
    out.ranks.push_back(Fold(trained, scales));
    SCD_RETURN_IF_ERROR(Measure(math, store, layer, out.linear, out.ranks.back()));
  }
  on_progress(1.0);
  return out;
}

}  // namespace scd
