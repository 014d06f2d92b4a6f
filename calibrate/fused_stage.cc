#include "calibrate/fused_stage.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "calibrate/layer_fits.h"

namespace scd {
namespace {

Digest LayerDigest(const Digest& inputs, std::int64_t layer, const FusedOptions& options) {
  const AlignerTraining& t = options.training;
  DigestBuilder builder("scd.calibrate.fused.v1");
  builder.AddDigest(inputs).AddInt(layer).AddDouble(options.ridge_lambda).AddInt(options.rank);
  builder.AddInt(options.window).AddInt(options.native_head).AddDouble(options.distortion);
  builder.AddInt(t.mlp_width).AddInt(t.max_epochs).AddInt(t.batch_rows).AddDouble(t.learning_rate);
  builder.AddDouble(t.weight_decay).AddInt(t.patience).AddInt(static_cast<std::int64_t>(t.seed));
  return builder.Finish();
}

// Moves every array of a layer through `visit`, in one fixed order.
template <typename Layer, typename Visit>
void VisitArrays(Layer& layer, Visit visit) {
  visit(layer.linear.translator.encoder);
  visit(layer.linear.translator.encoder_bias);
  visit(layer.linear.translator.decoder);
  visit(layer.linear.translator.decoder_bias);
  visit(layer.network.mlp_in);
  visit(layer.network.mlp_in_bias);
  visit(layer.network.mlp_out);
  visit(layer.network.mlp_out_bias);
}

constexpr std::size_t kNumbers = 5;  // before the variances

WorkRecord ToRecord(const LayerFused& layer) {
  WorkRecord record;
  record.integers = {layer.network.epochs};
  record.numbers = {layer.linear.sd_k, layer.linear.sd_v, layer.network.linear_error, layer.network.error,
                    layer.coded_error};
  record.numbers.insert(record.numbers.end(), layer.linear.variances.begin(), layer.linear.variances.end());
  VisitArrays(layer, [&](const std::vector<float>& array) {
    record.values.insert(record.values.end(), array.begin(), array.end());
  });
  return record;
}

// Absent where the record does not have these sizes.
std::optional<LayerFused> FromRecord(const WorkRecord& record, std::int64_t layer, const TraceShape& shape,
                                     const FusedOptions& options) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t outputs = 2 * shape.d_kv;
  if (record.integers.size() != 1 || record.numbers.size() != kNumbers + size(options.rank)) return {};
  LayerFused out;
  out.layer = layer;
  AffineTranslator& linear = out.linear.translator;
  linear.in = shape.hidden;
  linear.rank = options.rank;
  linear.out = outputs;
  linear.encoder.resize(size(options.rank * shape.hidden));
  linear.encoder_bias.resize(size(options.rank));
  linear.decoder.resize(size(outputs * options.rank));
  linear.decoder_bias.resize(size(outputs));
  out.network = EmptyNetwork(
      {.in = options.window * options.rank, .width = options.training.mlp_width, .out = outputs});
  out.network.epochs = record.integers[0];
  out.linear.sd_k = record.numbers[0];
  out.linear.sd_v = record.numbers[1];
  out.network.linear_error = record.numbers[2];
  out.network.error = record.numbers[3];
  out.coded_error = record.numbers[4];
  out.linear.variances.assign(record.numbers.begin() + kNumbers, record.numbers.end());

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

}  // namespace

absl::StatusOr<std::vector<LayerFused>> RunFusedStage(const RunContext& context, const TraceStore& store,
                                                      const Transformer& consumer,
                                                      const FusedOptions& options, const Digest& inputs,
                                                      int num_threads) {
  const LayerFits<LayerFused> fits{
      .stage = "fused",
      .record = "fused",
      .units = std::max<std::int64_t>(1, options.training.max_epochs),
      .digest = [&](std::int64_t layer) { return LayerDigest(inputs, layer, options); },
      .to_record = ToRecord,
      .from_record = [&](const WorkRecord& record,
                         std::int64_t layer) { return FromRecord(record, layer, store.shape(), options); },
      .fit =
          [&](HostMath& math, std::int64_t layer, const std::function<void(double)>& on_progress) {
            return FitFused(math, store, consumer, layer, options, context.work.File("."), context.stop,
                            on_progress);
          },
      .log =
          [&](const LayerFused& layer) {
            context.log.Info(absl::StrFormat(
                "layer %d, fused: held-out error of K and V %.4f, linear alone %.4f, rounded codes %.4f, %d "
                "epochs",
                layer.layer, layer.network.error, layer.network.linear_error, layer.coded_error,
                layer.network.epochs));
          }};
  std::vector<std::int64_t> layers(static_cast<std::size_t>(store.shape().num_layers));
  std::iota(layers.begin(), layers.end(), std::int64_t{0});
  return RunLayerFits(context, fits, layers, num_threads);
}

}  // namespace scd
