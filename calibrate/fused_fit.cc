#include "calibrate/fused_fit.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "calibrate/entropy_fit.h"
#include "calibrate/kv_rows.h"
#include "calibrate/mapped_rows.h"
#include "calibrate/pair_moments.h"
#include "common/config/codec.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Codes of the prefixes that are fitted on, or of those that are held out.
struct CodedRows {
  std::vector<std::int64_t> positions;  // [n]
  std::unique_ptr<MappedRows> codes;    // [n, rank]
};

void CopyRows(ConstTensorView from, TensorView to) {
  for (std::int64_t r = 0; r < from.dim(0); ++r)
    std::copy_n(from.row<float>(r), from.dim(1), to.row<float>(r));
}

void DivideColumns(absl::Span<const float> divisors, TensorView rows) {
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    float* row = rows.row<float>(r);
    for (std::size_t i = 0; i < divisors.size(); ++i) row[i] /= divisors[i];
  }
}

class GroupFit {
 public:
  GroupFit(HostMath& math, const TraceStore& store, const Transformer& consumer, const LayerRange& layers,
           const FusedOptions& options, const std::string& folder, std::stop_token stop,
           const std::function<void(double)>& on_progress)
      : math_(math),
        store_(store),
        consumer_(consumer),
        options_(options),
        folder_(folder),
        stop_(std::move(stop)),
        on_progress_(on_progress),
        outputs_(2 * store.shape().d_kv) {
    group_.layers = layers;
  }

  absl::StatusOr<FusedGroup> Run() {
    SCD_RETURN_IF_ERROR(FitLinear());
    group_.each.resize(static_cast<std::size_t>(group_.layers.size()));
    const bool with_networks = options_.training.mlp_width > 0;
    SCD_ASSIGN_OR_RETURN(CodedRows held_out, Encode(true));
    SCD_RETURN_IF_ERROR(Round());
    // Without a network nothing reads the codes of the rows of the fit again.
    CodedRows rows;
    if (with_networks) {
      SCD_ASSIGN_OR_RETURN(rows, Encode(false));
      if (options_.distortion > 0) RoundToSteps(Steps(), rows.codes->view());
    }
    SCD_ASSIGN_OR_RETURN(CodedRows coded, Encode(true));
    if (options_.distortion > 0) RoundToSteps(Steps(), coded.codes->view());
    for (std::int64_t i = 0; i < group_.layers.size(); ++i) {
      LayerFused& layer = group_.each[static_cast<std::size_t>(i)];
      if (with_networks) {
        SCD_ASSIGN_OR_RETURN(layer.network, Train(i, rows, coded));
      }
      SCD_ASSIGN_OR_RETURN(layer.plain, Measure(i, held_out));
      SCD_ASSIGN_OR_RETURN(layer.coded, Measure(i, coded));
    }
    ShareEncoder(&group_);
    on_progress_(1.0);
    return std::move(group_);
  }

 private:
  // Calls on_piece(piece, first row) for each piece; rows are counted over all pieces of its kind.
  template <typename OnPiece>
  absl::Status ForEachPiece(bool held_out, OnPiece on_piece) const {
    std::int64_t first = 0;
    for (const TracePiece& piece : store_.pieces()) {
      if (piece.held_out != held_out) continue;
      if (stop_.stop_requested()) return absl::CancelledError("stopped during the Fused fits");
      SCD_RETURN_IF_ERROR(on_piece(piece, first));
      first += piece.rows;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ConstTensorView> ReadInputs(const TracePiece& piece, std::vector<float>& out) const {
    return ReadLayersHidden(store_, piece, group_.layers, &out);
  }

  // K beside V of the group's layers, side by side.
  absl::StatusOr<ConstTensorView> ReadOutputs(const TracePiece& piece, KvRows& kv_rows,
                                              std::vector<float>& out) const {
    const std::int64_t width = group_.layers.size() * outputs_;
    out.resize(static_cast<std::size_t>(piece.rows * width));
    const TensorView all = MatrixView(out.data(), piece.rows, width);
    std::vector<float> rows;
    for (std::int64_t i = 0; i < group_.layers.size(); ++i) {
      SCD_RETURN_IF_ERROR(kv_rows.Read(piece, group_.layers.first + i, &rows));
      CopyRows(MatrixView(rows.data(), piece.rows, outputs_), all.columns(i * outputs_, outputs_));
    }
    return ConstTensorView(all);
  }

  absl::Status FitLinear() {
    SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store_, consumer_, PairSide::kConsumer));
    PairMoments sums(group_.layers.size() * store_.shape().hidden, group_.layers.size() * outputs_, true);
    std::vector<float> inputs, outputs;
    SCD_RETURN_IF_ERROR(ForEachPiece(false, [&](const TracePiece& piece, std::int64_t) -> absl::Status {
      SCD_ASSIGN_OR_RETURN(const ConstTensorView a, ReadInputs(piece, inputs));
      SCD_ASSIGN_OR_RETURN(const ConstTensorView b, ReadOutputs(piece, *kv_rows, outputs));
      return sums.Add(math_, a, b);
    }));
    SCD_ASSIGN_OR_RETURN(const Moments moments, sums.Finish());
    SCD_ASSIGN_OR_RETURN(group_.linear,
                         FitFusedLinear(moments, group_.layers.size(), options_.rank, options_.ridge_lambda));
    mean_.assign(moments.mean_b.begin(), moments.mean_b.end());
    spread_ = group_.linear.OutputSpread();
    return absl::OkStatus();
  }

  std::vector<float> Steps() const { return group_.linear.Steps(options_.distortion); }

  // Fits the decoder to rounded codes.
  absl::Status Round() {
    if (options_.distortion <= 0 || !options_.refit_decoder) return absl::OkStatus();
    SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store_, consumer_, PairSide::kConsumer));
    const std::vector<float> steps = Steps();
    const AffineTranslator& linear = group_.linear.translator;
    PairMoments sums(linear.rank, linear.out, false);
    std::vector<float> inputs, outputs, codes;
    SCD_RETURN_IF_ERROR(ForEachPiece(false, [&](const TracePiece& piece, std::int64_t) -> absl::Status {
      SCD_ASSIGN_OR_RETURN(const ConstTensorView a, ReadInputs(piece, inputs));
      SCD_ASSIGN_OR_RETURN(const ConstTensorView b, ReadOutputs(piece, *kv_rows, outputs));
      codes.resize(static_cast<std::size_t>(piece.rows * linear.rank));
      const TensorView z = MatrixView(codes.data(), piece.rows, linear.rank);
      SCD_RETURN_IF_ERROR(EncodeRows(math_, linear, linear.rank, a, z));
      RoundToSteps(steps, z);
      return sums.Add(math_, z, b);
    }));
    SCD_ASSIGN_OR_RETURN(const Moments moments, sums.Finish());
    return RefitDecoder(moments, options_.ridge_lambda, &group_.linear.translator);
  }

  absl::StatusOr<CodedRows> Encode(bool held_out) const {
    const AffineTranslator& linear = group_.linear.translator;
    CodedRows out;
    SCD_ASSIGN_OR_RETURN(out.codes, MappedRows::Create(folder_, store_.NumRows(held_out), linear.rank));
    std::vector<float> inputs;
    SCD_RETURN_IF_ERROR(
        ForEachPiece(held_out, [&](const TracePiece& piece, std::int64_t first) -> absl::Status {
          for (std::int64_t r = 0; r < piece.rows; ++r) out.positions.push_back(piece.first_position + r);
          SCD_ASSIGN_OR_RETURN(const ConstTensorView a, ReadInputs(piece, inputs));
          return EncodeRows(math_, linear, linear.rank, a, out.codes->view().rows(first, piece.rows));
        }));
    return out;
  }

  // What the codes of one layer decode to linearly.
  absl::Status DecodeLayer(std::int64_t index, ConstTensorView codes, TensorView out) const {
    const AffineTranslator& linear = group_.linear.translator;
    const std::int64_t first = index * outputs_;
    SCD_RETURN_IF_ERROR(
        math_.Gemm(codes, MatrixView(linear.decoder.data() + first * linear.rank, outputs_, linear.rank), out,
                   {.transpose_b = true}));
    for (std::int64_t r = 0; r < out.dim(0); ++r) {
      float* row = out.row<float>(r);
      for (std::int64_t i = 0; i < outputs_; ++i)
        row[i] += linear.decoder_bias[static_cast<std::size_t>(first + i)];
    }
    return absl::OkStatus();
  }

  absl::Span<const float> OfLayer(const std::vector<float>& of_outputs, std::int64_t index) const {
    return absl::MakeConstSpan(of_outputs)
        .subspan(static_cast<std::size_t>(index * outputs_), static_cast<std::size_t>(outputs_));
  }

  // What a network is trained on: x from the codes, y = what they leave of K and V, in units of their spread.
  struct Pairs {
    std::unique_ptr<MappedRows> x;
    std::unique_ptr<MappedRows> y;
    AlignerRows view() const { return {x->view(), y->view()}; }
  };

  absl::StatusOr<Pairs> MakePairs(std::int64_t index, bool held_out, const CodedRows& rows,
                                  float gain) const {
    const TensorView codes = rows.codes->view();
    Pairs out;
    SCD_ASSIGN_OR_RETURN(out.x, MappedRows::Create(folder_, codes.dim(0), options_.window * codes.dim(1)));
    SCD_ASSIGN_OR_RETURN(out.y, MappedRows::Create(folder_, codes.dim(0), outputs_));
    FillWindows(codes, rows.positions, options_.native_head, 0, gain, out.x->view());
    SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store_, consumer_, PairSide::kConsumer));
    std::vector<float> kv;
    SCD_RETURN_IF_ERROR(
        ForEachPiece(held_out, [&](const TracePiece& piece, std::int64_t first) -> absl::Status {
          const TensorView y = out.y->view().rows(first, piece.rows);
          SCD_RETURN_IF_ERROR(kv_rows->Read(piece, group_.layers.first + index, &kv));
          SCD_RETURN_IF_ERROR(DecodeLayer(index, codes.rows(first, piece.rows), y));
          for (std::int64_t i = 0; i < y.num_elements(); ++i) {
            y.as<float>()[i] = kv[static_cast<std::size_t>(i)] - y.as<float>()[i];
          }
          DivideColumns(OfLayer(spread_, index), y);
          return absl::OkStatus();
        }));
    return out;
  }

  absl::StatusOr<AlignerNetwork> Train(std::int64_t index, const CodedRows& rows, const CodedRows& held_out) {
    const float gain = RootMeanSquare(rows.codes->view());
    SCD_ASSIGN_OR_RETURN(const Pairs pairs, MakePairs(index, false, rows, gain));
    SCD_ASSIGN_OR_RETURN(const Pairs others, MakePairs(index, true, held_out, gain));
    const auto on_step = [&](std::int64_t done, std::int64_t total) {
      const double of_layer = static_cast<double>(done) / static_cast<double>(total);
      on_progress_((static_cast<double>(index) + of_layer) / static_cast<double>(group_.layers.size()));
    };
    SCD_ASSIGN_OR_RETURN(const TrainedAligner trained,
                         TrainAligner(math_, pairs.view(), others.view(), options_.training, stop_, on_step));
    return FoldScales(trained, gain, OfLayer(spread_, index));
  }

  absl::StatusOr<FusedErrors> Measure(std::int64_t index, const CodedRows& held_out) const {
    const AlignerNetwork& network = group_.each[static_cast<std::size_t>(index)].network;
    const absl::Span<const float> spread = OfLayer(spread_, index);
    const absl::Span<const float> exact_mean = OfLayer(mean_, index);
    std::vector<float> mean(exact_mean.begin(), exact_mean.end());
    DivideColumns(spread, MatrixView(mean.data(), 1, outputs_));
    RelativeError linear_error, error;
    SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store_, consumer_, PairSide::kConsumer));
    std::vector<float> kv, predicted, scaled, x;
    SCD_RETURN_IF_ERROR(ForEachPiece(true, [&](const TracePiece& piece, std::int64_t first) -> absl::Status {
      SCD_RETURN_IF_ERROR(kv_rows->Read(piece, group_.layers.first + index, &kv));
      const TensorView actual = MatrixView(kv.data(), piece.rows, outputs_);
      DivideColumns(spread, actual);
      predicted.resize(kv.size());
      const TensorView view = MatrixView(predicted.data(), piece.rows, outputs_);
      SCD_RETURN_IF_ERROR(DecodeLayer(index, held_out.codes->view().rows(first, piece.rows), view));
      scaled = predicted;
      const TensorView scaled_view = MatrixView(scaled.data(), piece.rows, outputs_);
      DivideColumns(spread, scaled_view);
      linear_error.Add(scaled_view, actual, mean);
      if (network.width() == 0) return absl::OkStatus();
      x.resize(static_cast<std::size_t>(piece.rows * network.in));
      const TensorView x_view = MatrixView(x.data(), piece.rows, network.in);
      FillWindows(held_out.codes->view(), held_out.positions, options_.native_head, first, 1.0f, x_view);
      SCD_RETURN_IF_ERROR(AddNetwork(math_, network, x_view, view));
      DivideColumns(spread, view);
      error.Add(view, actual, mean);
      return absl::OkStatus();
    }));
    return FusedErrors{.linear = linear_error.value(),
                       .full = network.width() == 0 ? linear_error.value() : error.value()};
  }

  HostMath& math_;
  const TraceStore& store_;
  const Transformer& consumer_;
  const FusedOptions& options_;
  const std::string& folder_;
  const std::stop_token stop_;
  const std::function<void(double)>& on_progress_;
  const std::int64_t outputs_;  // of one layer: K beside V
  FusedGroup group_;
  std::vector<float> mean_, spread_;  // of each output of the group
};

// The first `kept` of each run of `columns` values.
void CutColumns(std::int64_t columns, std::int64_t kept, std::vector<float>& values) {
  auto to = values.begin();
  for (auto from = values.begin(); from != values.end(); from += columns) {
    to = std::copy_n(from, kept, to);
  }
  values.erase(to, values.end());
}

}  // namespace

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

absl::StatusOr<ConstTensorView> ReadLayersHidden(const TraceStore& store, const TracePiece& piece,
                                                 const LayerRange& layers, std::vector<float>* out) {
  const std::int64_t hidden = store.shape().hidden;
  const std::int64_t width = layers.size() * hidden;
  out->resize(static_cast<std::size_t>(piece.rows * width));
  const TensorView all = MatrixView(out->data(), piece.rows, width);
  std::vector<float> rows;
  for (std::int64_t i = 0; i < layers.size(); ++i) {
    SCD_RETURN_IF_ERROR(store.ReadHidden(piece, layers.first + i, PairSide::kProducer, &rows));
    CopyRows(MatrixView(rows.data(), piece.rows, hidden), all.columns(i * hidden, hidden));
  }
  return ConstTensorView(all);
}

absl::StatusOr<FusedGroup> FitFused(HostMath& math, const TraceStore& store, const Transformer& consumer,
                                    const LayerRange& layers, const FusedOptions& options,
                                    const std::string& folder, std::stop_token stop,
                                    const std::function<void(double)>& on_progress) {
  return GroupFit(math, store, consumer, layers, options, folder, std::move(stop), on_progress).Run();
}

void ShareEncoder(FusedGroup* group) {
  const AffineTranslator& t = group->linear.translator;
  const auto layers = static_cast<std::int64_t>(group->each.size());
  const std::int64_t hidden = t.in / layers;
  for (std::int64_t i = 0; i < layers; ++i) {
    std::vector<float>& share = group->each[static_cast<std::size_t>(i)].encoder;
    share.resize(static_cast<std::size_t>(t.rank * hidden));
    CopyRows(MatrixView(t.encoder.data(), t.rank, t.in).columns(i * hidden, hidden),
             MatrixView(share.data(), t.rank, hidden));
  }
}

void CutRank(std::int64_t rank, FusedGroup* group) {
  AffineTranslator& t = group->linear.translator;
  const std::int64_t before = t.rank;
  const auto kept = static_cast<std::size_t>(rank);
  t.rank = rank;
  t.encoder.resize(kept * static_cast<std::size_t>(t.in));
  t.encoder_bias.resize(kept);
  CutColumns(before, rank, t.decoder);
  group->linear.variances.resize(kept);
  group->linear.weights.resize(kept);
  for (LayerFused& layer : group->each) {
    if (layer.network.width() == 0) continue;
    layer.network.in = layer.network.in / before * rank;
    CutColumns(before, rank, layer.network.mlp_in);
  }
  ShareEncoder(group);
}

}  // namespace scd
