#include "calibrate/reuse_stage.h"

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using ReadRows = absl::Status (TraceStore::*)(const TracePiece&, std::int64_t, PairSide,
                                              std::vector<float>*) const;

absl::StatusOr<double> HeldOutError(HostMath& math, const TraceStore& store, const AffineTranslator& t,
                                    std::int64_t rank, std::int64_t layer, ReadRows read) {
  RelativeError error;
  std::vector<float> a, b, z, predicted;
  for (const TracePiece& piece : store.pieces()) {
    if (!piece.held_out) continue;
    SCD_RETURN_IF_ERROR((store.*read)(piece, layer, PairSide::kProducer, &a));
    SCD_RETURN_IF_ERROR((store.*read)(piece, layer, PairSide::kConsumer, &b));
    z.resize(static_cast<std::size_t>(piece.rows * rank));
    predicted.resize(b.size());
    const TensorView z_view = MatrixView(z.data(), piece.rows, rank);
    const TensorView predicted_view = MatrixView(predicted.data(), piece.rows, t.out);
    SCD_RETURN_IF_ERROR(EncodeRows(math, t, rank, MatrixView(a.data(), piece.rows, t.in), z_view));
    SCD_RETURN_IF_ERROR(DecodeRows(math, t, rank, z_view, predicted_view));
    error.Add(predicted_view, MatrixView(b.data(), piece.rows, t.out), t.decoder_bias);
  }
  return error.value();
}

}  // namespace

absl::StatusOr<std::vector<LayerReuse>> RunReuseStage(const RunContext& context, const Traces& traces,
                                                      const ReuseOptions& options, WorkerPool& workers) {
  const auto num_layers = static_cast<std::int64_t>(traces.k.size());
  std::vector<LayerReuse> layers(traces.k.size());
  Progress progress(context.log, context.progress, "reuse fits", "translators", 2 * num_layers);
  SCD_RETURN_IF_ERROR(workers.Run(2 * num_layers, [&](HostMath& math, std::int64_t job) -> absl::Status {
    if (context.stop.stop_requested()) return absl::CancelledError("stopped during the Reuse fits");
    const std::int64_t layer = job / 2;
    const bool is_k = job % 2 == 0;
    const auto index = static_cast<std::size_t>(layer);
    LayerReuse& out = layers[index];
    const auto fit = [&]() -> absl::Status {
      SCD_ASSIGN_OR_RETURN(const Moments moments, (is_k ? traces.k : traces.v)[index].Finish());
      const std::int64_t rank = is_k ? options.max_rank_k : options.max_rank_v;
      SCD_ASSIGN_OR_RETURN(const LinearFit linear, options.fit == ReuseFit::kJoint
                                                       ? FitJoint(moments, rank, options.ridge_lambda)
                                                       : FitReducedRank(moments, rank, options.ridge_lambda));
      AffineTranslator& translator = is_k ? out.k : out.v;
      translator = MakeTranslator(linear);
      SCD_ASSIGN_OR_RETURN(
          (is_k ? out.error_k : out.error_v),
          HeldOutError(math, *traces.store, translator, is_k ? options.rank_k : options.rank_v, layer,
                       is_k ? &TraceStore::ReadK : &TraceStore::ReadV));
      return absl::OkStatus();
    };
    if (const absl::Status status = fit(); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("layer ", layer, is_k ? " k: " : " v: ", status.message()));
    }
    progress.Add(1);
    return absl::OkStatus();
  }));
  return layers;
}

}  // namespace scd
