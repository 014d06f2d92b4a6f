#include "calibrate/fused_fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "calibrate/entropy_fit.h"
#include "calibrate/kv_rows.h"
#include "calibrate/pair_moments.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

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
           const FusedOptions& options, std::stop_token stop, const std::function<void(double)>& on_progress)
      : math_(math),
        store_(store),
        consumer_(consumer),
        options_(options),
        stop_(std::move(stop)),
        on_progress_(on_progress),
        outputs_(layers.size() * 2 * store.shape().d_kv) {
    group_.layers = layers;
  }

  absl::StatusOr<FusedGroup> Run() {
    SCD_RETURN_IF_ERROR(FitLinear());
    group_.each.resize(static_cast<std::size_t>(group_.layers.size()));
    SCD_RETURN_IF_ERROR(Measure());
    ShareEncoder(&group_);
    on_progress_(1.0);
    return std::move(group_);
  }

 private:
  // Of the group's work the sums are about as much as the closed forms after them.
  static constexpr double kSums = 0.5;

  template <typename OnPiece>
  absl::Status ForEachPiece(bool held_out, OnPiece on_piece) const {
    for (const TracePiece& piece : store_.pieces()) {
      if (piece.held_out != held_out) continue;
      if (stop_.stop_requested()) return absl::CancelledError("stopped during the Fused fits");
      SCD_RETURN_IF_ERROR(on_piece(piece));
    }
    return absl::OkStatus();
  }

  // K beside V of the group's layers, side by side.
  absl::StatusOr<ConstTensorView> ReadOutputs(const TracePiece& piece, KvRows& kv_rows,
                                              std::vector<float>& out) const {
    const std::int64_t each = 2 * store_.shape().d_kv;
    out.resize(static_cast<std::size_t>(piece.rows * outputs_));
    const TensorView all = MatrixView(out.data(), piece.rows, outputs_);
    std::vector<float> rows;
    for (std::int64_t i = 0; i < group_.layers.size(); ++i) {
      SCD_RETURN_IF_ERROR(kv_rows.Read(piece, group_.layers.first + i, &rows));
      CopyRows(MatrixView(rows.data(), piece.rows, each), all.columns(i * each, each));
    }
    return ConstTensorView(all);
  }

  absl::Status FitLinear() {
    SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store_, consumer_, PairSide::kConsumer));
    PairMoments sums(group_.layers.size() * store_.shape().hidden, outputs_, true);
    std::vector<float> inputs, outputs;
    const auto num_rows = static_cast<double>(store_.NumRows(false));
    SCD_RETURN_IF_ERROR(ForEachPiece(false, [&](const TracePiece& piece) -> absl::Status {
      SCD_ASSIGN_OR_RETURN(const ConstTensorView a, ReadLayersHidden(store_, piece, group_.layers, &inputs));
      SCD_ASSIGN_OR_RETURN(const ConstTensorView b, ReadOutputs(piece, *kv_rows, outputs));
      SCD_RETURN_IF_ERROR(sums.Add(math_, a, b));
      on_progress_(kSums * static_cast<double>(sums.count()) / num_rows);
      return absl::OkStatus();
    }));
    SCD_ASSIGN_OR_RETURN(const Moments moments, sums.Finish());
    SCD_ASSIGN_OR_RETURN(group_.linear,
                         FitFusedLinear(moments, group_.layers.size(), options_.rank, options_.ridge_lambda));
    return absl::OkStatus();
  }

  absl::Status Measure() {
    const AffineTranslator& linear = group_.linear.translator;
    const std::vector<float> spread = group_.linear.OutputSpread();
    const std::vector<float> steps = group_.linear.Steps(options_.distortion);
    const std::int64_t each = outputs_ / group_.layers.size();
    std::vector<float> mean = linear.decoder_bias;
    DivideColumns(spread, MatrixView(mean.data(), 1, outputs_));
    std::vector<RelativeError> plain(group_.each.size()), coded(group_.each.size());
    SCD_ASSIGN_OR_RETURN(const auto kv_rows, KvRows::Create(store_, consumer_, PairSide::kConsumer));
    std::vector<float> inputs, outputs, codes, decoded;
    SCD_RETURN_IF_ERROR(ForEachPiece(true, [&](const TracePiece& piece) -> absl::Status {
      SCD_ASSIGN_OR_RETURN(const ConstTensorView a, ReadLayersHidden(store_, piece, group_.layers, &inputs));
      SCD_RETURN_IF_ERROR(ReadOutputs(piece, *kv_rows, outputs).status());
      const TensorView actual = MatrixView(outputs.data(), piece.rows, outputs_);
      DivideColumns(spread, actual);
      codes.resize(static_cast<std::size_t>(piece.rows * linear.rank));
      decoded.resize(outputs.size());
      const TensorView z = MatrixView(codes.data(), piece.rows, linear.rank);
      const TensorView predicted = MatrixView(decoded.data(), piece.rows, outputs_);
      SCD_RETURN_IF_ERROR(EncodeRows(math_, linear, linear.rank, a, z));
      for (std::vector<RelativeError>* const errors : {&plain, &coded}) {
        if (errors == &coded && options_.distortion > 0) RoundToSteps(steps, z);
        SCD_RETURN_IF_ERROR(DecodeRows(math_, linear, linear.rank, z, predicted));
        DivideColumns(spread, predicted);
        for (std::size_t i = 0; i < errors->size(); ++i) {
          const std::int64_t first = static_cast<std::int64_t>(i) * each;
          (*errors)[i].Add(predicted.columns(first, each), actual.columns(first, each),
                           {mean.begin() + first, mean.begin() + first + each});
        }
      }
      return absl::OkStatus();
    }));
    for (std::size_t i = 0; i < group_.each.size(); ++i) {
      group_.each[i].plain_error = plain[i].value();
      group_.each[i].coded_error = coded[i].value();
    }
    return absl::OkStatus();
  }

  HostMath& math_;
  const TraceStore& store_;
  const Transformer& consumer_;
  const FusedOptions& options_;
  const std::stop_token stop_;
  const std::function<void(double)>& on_progress_;
  const std::int64_t outputs_;  // K beside V of the group's layers
  FusedGroup group_;
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
                                    std::stop_token stop, const std::function<void(double)>& on_progress) {
  return GroupFit(math, store, consumer, layers, options, std::move(stop), on_progress).Run();
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
  ShareEncoder(group);
}

}  // namespace scd
