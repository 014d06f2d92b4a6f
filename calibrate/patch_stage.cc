#include "calibrate/patch_stage.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "calibrate/layer_fits.h"
#include "calibrate/patch_fit.h"

namespace scd {
namespace {

Digest LayerDigest(const Digest& inputs, std::int64_t layer, const PatchOptions& options) {
  const AlignerTraining& t = options.training;
  DigestBuilder builder("scd.calibrate.patch.v1");
  builder.AddDigest(inputs).AddInt(layer).AddDouble(options.ridge_lambda);
  for (const std::int64_t rank : options.ranks) builder.AddInt(rank);
  builder.AddInt(t.mlp_width).AddInt(t.max_epochs).AddInt(t.batch_rows).AddDouble(t.learning_rate);
  builder.AddDouble(t.weight_decay).AddInt(t.patience).AddInt(static_cast<std::int64_t>(t.seed));
  return builder.Finish();
}

// Moves every array of a layer through `visit`, in one fixed order.
template <typename Layer, typename Visit>
void VisitArrays(Layer& layer, Visit visit) {
  visit(layer.linear.encoder);
  visit(layer.linear.encoder_bias);
  visit(layer.linear.decoder);
  visit(layer.linear.decoder_bias);
  for (auto& network : layer.ranks) {
    visit(network.mlp_in);
    visit(network.mlp_in_bias);
    visit(network.mlp_out);
    visit(network.mlp_out_bias);
  }
}

WorkRecord ToRecord(const LayerPatch& layer) {
  WorkRecord record;
  for (const AlignerNetwork& network : layer.ranks) {
    record.integers.push_back(network.epochs);
    record.numbers.insert(record.numbers.end(), {network.linear_error, network.error});
  }
  VisitArrays(layer, [&](const std::vector<float>& array) {
    record.values.insert(record.values.end(), array.begin(), array.end());
  });
  return record;
}

// Absent where the record does not have these sizes.
std::optional<LayerPatch> FromRecord(const WorkRecord& record, std::int64_t layer, std::int64_t hidden,
                                     const PatchOptions& options) {
  if (record.integers.size() != options.ranks.size() || record.numbers.size() != 2 * options.ranks.size())
    return {};
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  LayerPatch out;
  out.layer = layer;
  out.linear.in = hidden;
  out.linear.rank = options.ranks.back();
  out.linear.out = hidden;
  out.linear.encoder.resize(size(out.linear.rank * hidden));
  out.linear.encoder_bias.resize(size(out.linear.rank));
  out.linear.decoder.resize(size(hidden * out.linear.rank));
  out.linear.decoder_bias.resize(size(hidden));
  for (std::size_t i = 0; i < options.ranks.size(); ++i) {
    AlignerNetwork network =
        EmptyNetwork({.in = options.ranks[i], .width = options.training.mlp_width, .out = hidden});
    network.linear_error = record.numbers[2 * i];
    network.error = record.numbers[2 * i + 1];
    network.epochs = record.integers[i];
    out.ranks.push_back(std::move(network));
  }
  std::size_t total = 0;
  VisitArrays(out, [&](std::vector<float>& array) { total += array.size(); });
  if (record.values.size() != total) return {};
  auto next = record.values.begin();
  VisitArrays(out, [&](std::vector<float>& array) {
    std::copy_n(next, array.size(), array.begin());
    next += static_cast<std::ptrdiff_t>(array.size());
  });
  return out;
}

void LogLayer(Log& log, const LayerPatch& layer) {
  for (const AlignerNetwork& network : layer.ranks) {
    log.Info(absl::StrFormat("layer %d, rank %d: held-out error of H %.4f, linear alone %.4f, %d epochs",
                             layer.layer, network.in, network.error, network.linear_error, network.epochs));
  }
}

}  // namespace

absl::StatusOr<std::vector<LayerPatch>> RunPatchStage(const RunContext& context, const TraceStore& store,
                                                      absl::Span<const std::int64_t> layers,
                                                      const PatchOptions& options, const Digest& inputs,
                                                      int num_threads) {
  const std::int64_t hidden = store.shape().hidden;
  const LayerFits<LayerPatch> fits{
      .stage = "aligners",
      .record = "patch",
      .unit = "epochs",
      .units = std::max<std::int64_t>(1, options.training.max_epochs) *
               static_cast<std::int64_t>(options.ranks.size()),
      .digest = [&](std::int64_t layer) { return LayerDigest(inputs, layer, options); },
      .to_record = ToRecord,
      .from_record = [&](const WorkRecord& record,
                         std::int64_t layer) { return FromRecord(record, layer, hidden, options); },
      .fit =
          [&](HostMath& math, std::int64_t layer, const std::function<void(double)>& on_progress) {
            return FitPatch(math, store, layer, options, context.work.File("."), context.stop, on_progress);
          },
      .log = [&](const LayerPatch& layer) { LogLayer(context.log, layer); }};
  return RunLayerFits(context, fits, layers, num_threads);
}

}  // namespace scd
