#include "calibrate/patch_stage.h"

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibrate/patch_fit.h"
#include "kernels/status_macros.h"

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
  const std::int64_t width = options.training.mlp_width;
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
    AlignerNetwork network;
    network.rank = options.ranks[i];
    network.mlp_in.resize(size(width * network.rank));
    network.mlp_in_bias.resize(size(width));
    network.mlp_out.resize(size(hidden * width));
    network.mlp_out_bias.resize(size(hidden));
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
                             layer.layer, network.rank, network.error, network.linear_error, network.epochs));
  }
}

}  // namespace

absl::StatusOr<std::vector<LayerPatch>> RunPatchStage(const RunContext& context, const TraceStore& store,
                                                      absl::Span<const std::int64_t> layers,
                                                      const PatchOptions& options, const Digest& inputs,
                                                      int num_threads) {
  std::vector<LayerPatch> out(layers.size());
  std::vector<std::size_t> open;  // layers that no earlier run fitted
  const auto name = [](std::int64_t layer) { return absl::StrCat("patch-", layer); };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::optional<LayerPatch> known;
    if (const auto record = context.work.Read(name(layers[i]), LayerDigest(inputs, layers[i], options));
        record.ok()) {
      known = FromRecord(*record, layers[i], store.shape().hidden, options);
    }
    if (known) {
      out[i] = *std::move(known);
    } else {
      open.push_back(i);
    }
  }
  if (open.size() < layers.size()) {
    context.log.Info(absl::StrCat("aligners: ", layers.size() - open.size(), " of ", layers.size(),
                                  " layers were fitted by an earlier run"));
  }
  const auto count = static_cast<std::int64_t>(open.size());
  if (count == 0) return out;

  SCD_ASSIGN_OR_RETURN(const auto workers, WorkerPool::Create(num_threads, count));
  const std::int64_t layer_epochs = std::max<std::int64_t>(1, options.training.max_epochs) *
                                    static_cast<std::int64_t>(options.ranks.size());
  Progress progress(context.log, context.progress, "aligners", "epochs", count * layer_epochs);
  SCD_RETURN_IF_ERROR(workers->Run(count, [&](HostMath& math, std::int64_t job) -> absl::Status {
    const std::size_t i = open[static_cast<std::size_t>(job)];
    std::int64_t shown = 0;
    const auto on_progress = [&](double fraction) {
      const auto units = static_cast<std::int64_t>(fraction * static_cast<double>(layer_epochs) + 1e-6);
      if (units > shown) progress.Add(units - shown);
      shown = std::max(shown, units);
    };
    SCD_ASSIGN_OR_RETURN(
        out[i], FitPatch(math, store, layers[i], options, context.work.File("."), context.stop, on_progress));
    LogLayer(context.log, out[i]);
    return context.work.Write(name(layers[i]), LayerDigest(inputs, layers[i], options), ToRecord(out[i]));
  }));
  return out;
}

}  // namespace scd
