#include "calibrate/code_samples.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "calibrate/kv_rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Training pieces, evenly spread, that have about kSampleRows rows together.
std::vector<TracePiece> SamplePieces(const TraceStore& store) {
  std::vector<TracePiece> training;
  for (const TracePiece& piece : store.pieces()) {
    if (!piece.held_out) training.push_back(piece);
  }
  const double share =
      std::min(1.0, static_cast<double>(kSampleRows) /
                        static_cast<double>(std::max<std::int64_t>(1, store.NumRows(false))));
  std::vector<TracePiece> taken;
  for (std::size_t i = 0; i < training.size(); ++i) {
    const auto due = static_cast<std::size_t>(std::ceil(share * static_cast<double>(i + 1)));
    if (taken.size() < due) taken.push_back(training[i]);
  }
  return taken;
}

// The root mean square of the values of columns [first, first + count) around each column's mean.
class Spread {
 public:
  explicit Spread(std::int64_t columns)
      : sums_(static_cast<std::size_t>(columns)), squares_(static_cast<std::size_t>(columns)) {}

  void Add(ConstTensorView rows) {
    count_ += static_cast<double>(rows.dim(0));
    for (std::int64_t r = 0; r < rows.dim(0); ++r) {
      const float* row = rows.row<float>(r);
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        sums_[i] += row[i];
        squares_[i] += static_cast<double>(row[i]) * row[i];
      }
    }
  }

  double value(std::int64_t first, std::int64_t count) const {
    double sum = 0;
    for (std::int64_t c = first; c < first + count; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double mean = sums_[i] / count_;
      sum += squares_[i] / count_ - mean * mean;
    }
    const double variance = sum / static_cast<double>(count);
    return variance > 1e-30 ? std::sqrt(variance) : 1.0;
  }

 private:
  double count_ = 0;
  std::vector<double> sums_, squares_;
};

// One layer's samples while they are made.
class LayerSampler {
 public:
  LayerSampler(const TraceStore& store, const FittedPair& fitted, std::int64_t layer)
      : store_(store),
        layer_(layer),
        d_kv_(store.shape().d_kv),
        kv_spread_(2 * d_kv_),
        h_spread_(store.shape().hidden) {
    const LayerReuse& reuse = fitted.reuse[static_cast<std::size_t>(layer)];
    translators_[CodeKind::kK] = &reuse.k;
    translators_[CodeKind::kV] = &reuse.v;
    for (const LayerPatch& patch : fitted.patch) {
      if (patch.layer == layer) translators_[CodeKind::kH] = &patch.linear;
    }
    for (const FusedGroup& group : fitted.fused) {
      if (group.layers.last != layer) continue;
      group_ = &group;
      translators_[CodeKind::kKV] = &group.linear.translator;
    }
  }

  absl::Status Run(HostMath& math, const std::vector<TracePiece>& pieces, KvRows& producer, KvRows& consumer,
                   const std::string& folder) {
    std::int64_t total = 0;
    for (const TracePiece& piece : pieces) total += piece.rows;
    for (const auto& [kind, translator] : translators_) {
      CodeSample& sample = samples_.emplace_back();
      sample.layer = layer_;
      sample.kind = kind;
      SCD_ASSIGN_OR_RETURN(sample.rows, MappedRows::Create(folder, total, translator->rank));
    }
    std::int64_t first = 0;
    for (const TracePiece& piece : pieces) {
      SCD_RETURN_IF_ERROR(AddPiece(math, piece, first, producer, consumer));
      first += piece.rows;
    }
    for (CodeSample& sample : samples_) {
      const AffineTranslator& translator = *translators_[sample.kind];
      if (sample.kind == CodeKind::kKV) {
        sample.variances = group_->linear.variances;
        sample.weights = group_->linear.weights;
      } else {
        sample.variances = ColumnVariances(sample.rows->view());
        sample.weights = ColumnWeights(translator, SpreadOf(sample.kind, translator.out));
      }
    }
    return absl::OkStatus();
  }

  std::vector<CodeSample> TakeSamples() && { return std::move(samples_); }

 private:
  absl::Status AddPiece(HostMath& math, const TracePiece& piece, std::int64_t first, KvRows& producer,
                        KvRows& consumer) {
    const std::int64_t hidden = store_.shape().hidden;
    SCD_RETURN_IF_ERROR(store_.ReadHidden(piece, layer_, PairSide::kProducer, &h_a_));
    SCD_RETURN_IF_ERROR(producer.Read(piece, layer_, &kv_a_));
    SCD_RETURN_IF_ERROR(consumer.Read(piece, layer_, &kv_b_));
    kv_spread_.Add(MatrixView(kv_b_.data(), piece.rows, 2 * d_kv_));
    if (translators_.contains(CodeKind::kH)) {
      SCD_RETURN_IF_ERROR(store_.ReadHidden(piece, layer_, PairSide::kConsumer, &h_b_));
      h_spread_.Add(MatrixView(h_b_.data(), piece.rows, hidden));
    }
    const ConstTensorView kv = MatrixView(kv_a_.data(), piece.rows, 2 * d_kv_);
    for (const CodeSample& sample : samples_) {
      const AffineTranslator& translator = *translators_[sample.kind];
      ConstTensorView input = MatrixView(h_a_.data(), piece.rows, hidden);
      if (sample.kind == CodeKind::kK) input = kv.columns(0, d_kv_);
      if (sample.kind == CodeKind::kV) input = kv.columns(d_kv_, d_kv_);
      if (sample.kind == CodeKind::kKV) {
        SCD_ASSIGN_OR_RETURN(input, ReadLayersHidden(store_, piece, group_->layers, &group_inputs_));
      }
      SCD_RETURN_IF_ERROR(
          EncodeRows(math, translator, translator.rank, input, sample.rows->view().rows(first, piece.rows)));
    }
    return absl::OkStatus();
  }

  std::vector<double> SpreadOf(CodeKind kind, std::int64_t outputs) const {
    const double sd = kind == CodeKind::kK   ? kv_spread_.value(0, d_kv_)
                      : kind == CodeKind::kV ? kv_spread_.value(d_kv_, d_kv_)
                                             : h_spread_.value(0, outputs);
    return std::vector<double>(static_cast<std::size_t>(outputs), sd);
  }

  const TraceStore& store_;
  const std::int64_t layer_;
  const std::int64_t d_kv_;
  const FusedGroup* group_ = nullptr;  // whose code comes with this layer
  std::map<CodeKind, const AffineTranslator*> translators_;
  Spread kv_spread_, h_spread_;
  std::vector<float> h_a_, h_b_, kv_a_, kv_b_, group_inputs_;  // of one piece
  std::vector<CodeSample> samples_;
};

}  // namespace

absl::StatusOr<std::vector<CodeSample>> SampleCodes(const RunContext& context, const TraceStore& store,
                                                    const Transformer& producer, const Transformer& consumer,
                                                    const FittedPair& fitted, WorkerPool& workers) {
  const std::vector<TracePiece> pieces = SamplePieces(store);
  std::vector<std::vector<CodeSample>> layers(fitted.reuse.size());
  const auto num_layers = static_cast<std::int64_t>(layers.size());
  Progress progress(context.log, context.progress, "entropy tables", "layers", num_layers);
  SCD_RETURN_IF_ERROR(workers.Run(num_layers, [&](HostMath& math, std::int64_t layer) -> absl::Status {
    if (context.stop.stop_requested()) return absl::CancelledError("stopped while codes were sampled");
    SCD_ASSIGN_OR_RETURN(const auto kv_a, KvRows::Create(store, producer, PairSide::kProducer));
    SCD_ASSIGN_OR_RETURN(const auto kv_b, KvRows::Create(store, consumer, PairSide::kConsumer));
    LayerSampler sampler(store, fitted, layer);
    SCD_RETURN_IF_ERROR(sampler.Run(math, pieces, *kv_a, *kv_b, context.work.File(".")));
    layers[static_cast<std::size_t>(layer)] = std::move(sampler).TakeSamples();
    progress.Add(1);
    return absl::OkStatus();
  }));
  std::vector<CodeSample> out;
  for (std::vector<CodeSample>& layer : layers)
    std::move(layer.begin(), layer.end(), std::back_inserter(out));
  return out;
}

absl::StatusOr<std::vector<CodeTables>> FitCodeTables(const std::vector<CodeSample>& samples,
                                                      double distortion, WorkerPool& workers) {
  std::vector<CodeTables> tables(samples.size());
  SCD_RETURN_IF_ERROR(workers.Run(static_cast<std::int64_t>(samples.size()), [&](HostMath&, std::int64_t i) {
    const CodeSample& sample = samples[static_cast<std::size_t>(i)];
    tables[static_cast<std::size_t>(i)] = {
        .layer = sample.layer,
        .kind = sample.kind,
        .fit = FitTables(FitSteps(distortion, sample.variances, sample.weights), sample.rows->view())};
    return absl::OkStatus();
  }));
  return tables;
}

}  // namespace scd
