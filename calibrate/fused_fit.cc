#include "calibrate/fused_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "calibrate/entropy_fit.h"
#include "calibrate/kv_rows.h"
#include "calibrate/linear_fit.h"
#include "calibrate/mapped_rows.h"
#include "common/config/codec.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kBlockRows = 512;

// Rows of one layer, of the prefixes that are fitted on or of those that are held out.
struct CodedRows {
  std::vector<std::int64_t> positions;  // [n]
  std::unique_ptr<MappedRows> codes;    // [n, rank]
  std::unique_ptr<MappedRows> kv;       // [n, 2 d_kv], the consumer's
};

// Walks through the layer's pieces: on_piece(H_A, K beside V), rows `first` and on of all.
template <typename OnPiece>
absl::Status ForEachPiece(const TraceStore& store, const Transformer& consumer, std::int64_t layer,
                          bool held_out, const std::stop_token& stop, OnPiece on_piece) {
  SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store, consumer, PairSide::kConsumer));
  std::vector<float> hidden, kv;
  std::int64_t first = 0;
  for (const TracePiece& piece : store.pieces()) {
    if (piece.held_out != held_out) continue;
    if (stop.stop_requested()) return absl::CancelledError("stopped during the Fused fits");
    SCD_RETURN_IF_ERROR(store.ReadHidden(piece, layer, PairSide::kProducer, &hidden));
    SCD_RETURN_IF_ERROR(kv_rows->Read(piece, layer, &kv));
    SCD_RETURN_IF_ERROR(on_piece(piece, first, MatrixView(hidden.data(), piece.rows, store.shape().hidden),
                                 MatrixView(kv.data(), piece.rows, 2 * store.shape().d_kv)));
    first += piece.rows;
  }
  return absl::OkStatus();
}

absl::StatusOr<CodedRows> MakeRows(const TraceStore& store, bool held_out, std::int64_t rank,
                                   const std::string& folder) {
  CodedRows rows;
  const std::int64_t count = store.NumRows(held_out);
  SCD_ASSIGN_OR_RETURN(rows.codes, MappedRows::Create(folder, count, rank));
  SCD_ASSIGN_OR_RETURN(rows.kv, MappedRows::Create(folder, count, 2 * store.shape().d_kv));
  for (const TracePiece& piece : store.pieces()) {
    if (piece.held_out != held_out) continue;
    for (std::int64_t r = 0; r < piece.rows; ++r) rows.positions.push_back(piece.first_position + r);
  }
  return rows;
}

void CopyRows(ConstTensorView from, TensorView to) {
  for (std::int64_t r = 0; r < from.dim(0); ++r)
    std::copy_n(from.row<float>(r), from.dim(1), to.row<float>(r));
}

// rows = (rows - what the codes decode to linearly) / spread.
absl::Status LeaveResidual(HostMath& math, const AffineTranslator& linear, ConstTensorView codes,
                           absl::Span<const float> spread, TensorView rows) {
  std::vector<float> decoded(static_cast<std::size_t>(kBlockRows * linear.out));
  for (std::int64_t begin = 0; begin < rows.dim(0); begin += kBlockRows) {
    const std::int64_t count = std::min(kBlockRows, rows.dim(0) - begin);
    const TensorView view = MatrixView(decoded.data(), count, linear.out);
    SCD_RETURN_IF_ERROR(DecodeRows(math, linear, linear.rank, codes.rows(begin, count), view));
    for (std::int64_t r = 0; r < count; ++r) {
      float* row = rows.row<float>(begin + r);
      for (std::int64_t i = 0; i < linear.out; ++i) {
        row[i] = (row[i] - view.row<float>(r)[i]) / spread[static_cast<std::size_t>(i)];
      }
    }
  }
  return absl::OkStatus();
}

void DivideColumns(absl::Span<const float> divisors, TensorView rows) {
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    float* row = rows.row<float>(r);
    for (std::size_t i = 0; i < divisors.size(); ++i) row[i] /= divisors[i];
  }
}

struct FusedErrors {
  double linear = 0;
  double full = 0;
};

// |X_hat - X| / |X - mean| of X = [K / sd_K, V / sd_V], without the network and with it.
absl::StatusOr<FusedErrors> MeasureErrors(HostMath& math, const LayerFused& fused, const CodedRows& rows,
                                          const FusedOptions& options, absl::Span<const float> spread) {
  const AffineTranslator& linear = fused.linear.translator;
  std::vector<float> mean = linear.decoder_bias;
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] /= spread[i];
  RelativeError linear_error, error;
  std::vector<float> x(static_cast<std::size_t>(kBlockRows * fused.network.in));
  std::vector<float> predicted(static_cast<std::size_t>(kBlockRows * linear.out));
  std::vector<float> actual(predicted.size()), scaled(predicted.size());
  const std::int64_t total = rows.codes->view().dim(0);
  for (std::int64_t begin = 0; begin < total; begin += kBlockRows) {
    const std::int64_t count = std::min(kBlockRows, total - begin);
    const TensorView x_view = MatrixView(x.data(), count, fused.network.in);
    const TensorView predicted_view = MatrixView(predicted.data(), count, linear.out);
    const TensorView actual_view = MatrixView(actual.data(), count, linear.out);
    const TensorView scaled_view = MatrixView(scaled.data(), count, linear.out);
    CopyRows(rows.kv->view().rows(begin, count), actual_view);
    DivideColumns(spread, actual_view);
    SCD_RETURN_IF_ERROR(
        DecodeRows(math, linear, linear.rank, rows.codes->view().rows(begin, count), predicted_view));
    CopyRows(predicted_view, scaled_view);
    DivideColumns(spread, scaled_view);
    linear_error.Add(scaled_view, actual_view, mean);
    FillWindows(rows.codes->view(), rows.positions, options.native_head, begin, 1.0f, x_view);
    SCD_RETURN_IF_ERROR(AddNetwork(math, fused.network, x_view, predicted_view));
    DivideColumns(spread, predicted_view);
    error.Add(predicted_view, actual_view, mean);
  }
  return FusedErrors{.linear = linear_error.value(), .full = error.value()};
}

absl::StatusOr<std::unique_ptr<MappedRows>> MakeWindows(const CodedRows& rows, const FusedOptions& options,
                                                        float gain, const std::string& folder) {
  const TensorView codes = rows.codes->view();
  SCD_ASSIGN_OR_RETURN(auto x, MappedRows::Create(folder, codes.dim(0), options.window * codes.dim(1)));
  FillWindows(codes, rows.positions, options.native_head, 0, gain, x->view());
  return x;
}

}  // namespace

std::vector<double> FusedLinear::spread() const {
  std::vector<double> out(static_cast<std::size_t>(translator.out), sd_v);
  std::fill_n(out.begin(), translator.out / 2, sd_k);
  return out;
}

std::vector<float> FusedLinear::Steps(double distortion) const {
  return FitSteps(distortion, variances, ColumnWeights(translator, spread()));
}

absl::StatusOr<FusedLinear> FitFusedLinear(const Moments& moments, std::int64_t rank, double ridge_lambda) {
  const std::int64_t d_kv = moments.ab.columns / 2;
  const auto spread = [&](std::int64_t first) {
    double sum = 0;
    for (std::int64_t i = first; i < first + d_kv; ++i) sum += moments.bb(i, i);
    const double variance = sum / (static_cast<double>(d_kv) * static_cast<double>(moments.count));
    return variance > 1e-30 ? std::sqrt(variance) : 1.0;
  };
  FusedLinear out;
  out.sd_k = spread(0);
  out.sd_v = spread(d_kv);
  const auto sd = [&](std::int64_t column) { return column < d_kv ? out.sd_k : out.sd_v; };

  Moments scaled = moments;
  for (std::int64_t i = 0; i < scaled.ab.rows; ++i) {
    for (std::int64_t j = 0; j < scaled.ab.columns; ++j) scaled.ab(i, j) /= sd(j);
  }
  SCD_ASSIGN_OR_RETURN(LinearFit fit, FitReducedRank(scaled, rank, ridge_lambda));
  for (std::int64_t c = 0; c < rank; ++c) {
    for (std::int64_t j = 0; j < fit.decoder.columns; ++j) fit.decoder(c, j) *= sd(j);
  }
  out.variances = CodeVariances(moments, fit);
  out.translator = MakeTranslator(fit);
  return out;
}

std::int64_t ReadableBefore(std::int64_t position, std::int64_t native_head) {
  const std::int64_t granule = position - position % kFusedGranule;
  return std::max<std::int64_t>(0, position - std::max(granule, native_head));
}

void FillWindows(ConstTensorView codes, absl::Span<const std::int64_t> positions, std::int64_t native_head,
                 std::int64_t begin, float gain, TensorView x) {
  const std::int64_t rank = codes.dim(1);
  const std::int64_t window = x.dim(1) / rank;
  for (std::int64_t r = 0; r < x.dim(0); ++r) {
    const std::int64_t before = ReadableBefore(positions[static_cast<std::size_t>(begin + r)], native_head);
    for (std::int64_t w = 0; w < window; ++w) {
      float* to = x.row<float>(r) + w * rank;
      if (w > before) {
        std::fill_n(to, rank, 0.0f);
        continue;
      }
      const float* from = codes.row<float>(begin + r - w);
      std::transform(from, from + rank, to, [gain](float value) { return value / gain; });
    }
  }
}

absl::StatusOr<LayerFused> FitFused(HostMath& math, const TraceStore& store, const Transformer& consumer,
                                    std::int64_t layer, const FusedOptions& options,
                                    const std::string& folder, std::stop_token stop,
                                    const std::function<void(double)>& on_progress) {
  LayerFused out;
  out.layer = layer;
  const std::int64_t rank = options.rank;
  SCD_ASSIGN_OR_RETURN(CodedRows rows, MakeRows(store, false, rank, folder));
  SCD_ASSIGN_OR_RETURN(CodedRows held_out, MakeRows(store, true, rank, folder));

  PairMoments sums(store.shape().hidden, 2 * store.shape().d_kv, true);
  SCD_RETURN_IF_ERROR(
      ForEachPiece(store, consumer, layer, false, stop,
                   [&](const TracePiece& piece, std::int64_t first, ConstTensorView a, ConstTensorView kv) {
                     CopyRows(kv, rows.kv->view().rows(first, piece.rows));
                     return sums.Add(math, a, kv);
                   }));
  SCD_ASSIGN_OR_RETURN(const Moments moments, sums.Finish());
  SCD_ASSIGN_OR_RETURN(out.linear, FitFusedLinear(moments, rank, options.ridge_lambda));
  const AffineTranslator& linear = out.linear.translator;

  std::vector<float> hidden;
  std::int64_t next[2] = {0, 0};
  for (const TracePiece& piece : store.pieces()) {
    if (stop.stop_requested()) return absl::CancelledError("stopped during the Fused fits");
    SCD_RETURN_IF_ERROR(store.ReadHidden(piece, layer, PairSide::kProducer, &hidden));
    std::int64_t& first = next[piece.held_out ? 1 : 0];
    SCD_RETURN_IF_ERROR(EncodeRows(math, linear, rank,
                                   MatrixView(hidden.data(), piece.rows, store.shape().hidden),
                                   (piece.held_out ? held_out : rows).codes->view().rows(first, piece.rows)));
    first += piece.rows;
  }
  SCD_RETURN_IF_ERROR(
      ForEachPiece(store, consumer, layer, true, stop,
                   [&](const TracePiece& piece, std::int64_t first, ConstTensorView, ConstTensorView kv) {
                     CopyRows(kv, held_out.kv->view().rows(first, piece.rows));
                     return absl::OkStatus();
                   }));

  const std::vector<double> exact_spread = out.linear.spread();
  const std::vector<float> spread(exact_spread.begin(), exact_spread.end());
  std::unique_ptr<MappedRows> plain_codes;
  SCD_ASSIGN_OR_RETURN(plain_codes, MappedRows::Create(folder, held_out.codes->view().dim(0), rank));
  CopyRows(held_out.codes->view(), plain_codes->view());
  if (options.distortion > 0) {
    const std::vector<float> steps = out.linear.Steps(options.distortion);
    RoundToSteps(steps, rows.codes->view());
    RoundToSteps(steps, held_out.codes->view());
  }
  SCD_ASSIGN_OR_RETURN(const auto held_out_y,
                       MappedRows::Create(folder, held_out.kv->view().dim(0), linear.out));
  CopyRows(held_out.kv->view(), held_out_y->view());
  SCD_RETURN_IF_ERROR(LeaveResidual(math, linear, rows.codes->view(), spread, rows.kv->view()));
  SCD_RETURN_IF_ERROR(LeaveResidual(math, linear, held_out.codes->view(), spread, held_out_y->view()));
  const float gain = RootMeanSquare(rows.codes->view());
  SCD_ASSIGN_OR_RETURN(const auto x, MakeWindows(rows, options, gain, folder));
  SCD_ASSIGN_OR_RETURN(const auto held_out_x, MakeWindows(held_out, options, gain, folder));
  SCD_ASSIGN_OR_RETURN(
      const TrainedAligner trained,
      TrainAligner(math, {x->view(), rows.kv->view()}, {held_out_x->view(), held_out_y->view()},
                   options.training, stop, [&](std::int64_t done, std::int64_t total) {
                     on_progress(static_cast<double>(done) / static_cast<double>(total));
                   }));
  out.network = FoldScales(trained, gain, spread);
  SCD_ASSIGN_OR_RETURN(const FusedErrors coded, MeasureErrors(math, out, held_out, options, spread));
  held_out.codes = std::move(plain_codes);
  SCD_ASSIGN_OR_RETURN(const FusedErrors plain, MeasureErrors(math, out, held_out, options, spread));
  out.coded_error = coded.full;
  out.network.linear_error = plain.linear;
  out.network.error = plain.full;
  on_progress(1.0);
  return out;
}

}  // namespace scd
