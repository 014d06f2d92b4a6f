#include "calibrate/fused_stage.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "calibrate/layer_fits.h"

namespace scd {
namespace {

LayerRange GroupOf(std::int64_t first, const TraceShape& shape, const FusedOptions& options) {
  return {.first = first, .last = std::min(first + options.group, shape.num_layers) - 1};
}

Digest GroupDigest(const Digest& inputs, std::int64_t first, const FusedOptions& options) {
  DigestBuilder builder("scd.calibrate.fused.v2");
  builder.AddDigest(inputs).AddInt(first).AddInt(options.group).AddDouble(options.ridge_lambda);
  builder.AddInt(options.rank).AddDouble(options.distortion);
  return builder.Finish();
}

// Moves every array of a group through `visit`, in one fixed order.
template <typename Group, typename Visit>
void VisitArrays(Group& group, Visit visit) {
  visit(group.linear.translator.encoder);
  visit(group.linear.translator.encoder_bias);
  visit(group.linear.translator.decoder);
  visit(group.linear.translator.decoder_bias);
}

// The same for every number in double.
template <typename Group, typename Visit>
void VisitNumbers(Group& group, Visit visit) {
  for (auto* numbers : {&group.linear.spreads, &group.linear.variances, &group.linear.weights}) {
    for (auto& number : *numbers) visit(number);
  }
  for (auto& layer : group.each) {
    visit(layer.plain_error);
    visit(layer.coded_error);
  }
}

WorkRecord ToRecord(const FusedGroup& group) {
  WorkRecord record;
  VisitNumbers(group, [&](double number) { record.numbers.push_back(number); });
  VisitArrays(group, [&](const std::vector<float>& array) {
    record.values.insert(record.values.end(), array.begin(), array.end());
  });
  return record;
}

// A group of this shape, all zeros.
FusedGroup EmptyGroup(const LayerRange& layers, const TraceShape& shape, const FusedOptions& options) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t rank = options.rank;
  FusedGroup group;
  group.layers = layers;
  group.each.resize(size(layers.size()));
  AffineTranslator& linear = group.linear.translator;
  linear.in = layers.size() * shape.hidden;
  linear.rank = rank;
  linear.out = layers.size() * 2 * shape.d_kv;
  linear.encoder.resize(size(rank * linear.in));
  linear.encoder_bias.resize(size(rank));
  linear.decoder.resize(size(linear.out * rank));
  linear.decoder_bias.resize(size(linear.out));
  group.linear.spreads.resize(2 * group.each.size());
  group.linear.variances.resize(size(rank));
  group.linear.weights.resize(size(rank));
  return group;
}

// Absent where the record does not have these sizes.
std::optional<FusedGroup> FromRecord(const WorkRecord& record, const LayerRange& layers,
                                     const TraceShape& shape, const FusedOptions& options) {
  FusedGroup out = EmptyGroup(layers, shape, options);
  std::size_t values = 0, numbers = 0;
  VisitArrays(out, [&](const std::vector<float>& array) { values += array.size(); });
  VisitNumbers(out, [&](double) { ++numbers; });
  if (record.numbers.size() != numbers || record.values.size() != values) return {};
  auto number = record.numbers.begin();
  VisitNumbers(out, [&](double& to) { to = *number++; });
  auto value = record.values.begin();
  VisitArrays(out, [&](std::vector<float>& array) {
    std::copy_n(value, array.size(), array.begin());
    value += static_cast<std::ptrdiff_t>(array.size());
  });
  ShareEncoder(&out);
  return out;
}

void LogGroup(Log& log, const FusedGroup& group) {
  for (std::size_t i = 0; i < group.each.size(); ++i) {
    const LayerFused& layer = group.each[i];
    log.Info(absl::StrFormat("layer %d, fused: held-out error of K and V %.4f, of rounded codes %.4f",
                             group.layers.first + static_cast<std::int64_t>(i), layer.plain_error,
                             layer.coded_error));
  }
}

}  // namespace

absl::StatusOr<std::vector<FusedGroup>> RunFusedStage(const RunContext& context, const TraceStore& store,
                                                      const Transformer& consumer,
                                                      const FusedOptions& options, const Digest& inputs,
                                                      int num_threads) {
  const TraceShape& shape = store.shape();
  std::vector<std::int64_t> firsts;
  for (std::int64_t layer = 0; layer < shape.num_layers; layer += options.group) firsts.push_back(layer);
  const LayerFits<FusedGroup> fits{
      .stage = "fused",
      .record = "fused",
      .unit = "tenths of groups",
      .units = 10,
      .digest = [&](std::int64_t first) { return GroupDigest(inputs, first, options); },
      .to_record = ToRecord,
      .from_record =
          [&](const WorkRecord& record, std::int64_t first) {
            return FromRecord(record, GroupOf(first, shape, options), shape, options);
          },
      .fit =
          [&](HostMath& math, std::int64_t first, const std::function<void(double)>& on_progress) {
            return FitFused(math, store, consumer, GroupOf(first, shape, options), options, context.stop,
                            on_progress);
          },
      .log = [&](const FusedGroup& group) { LogGroup(context.log, group); }};
  return RunLayerFits(context, fits, firsts, num_threads);
}

void CutUnsent(double distortion, std::vector<FusedGroup>* groups) {
  std::int64_t rank = 1;
  for (const FusedGroup& group : *groups) {
    const std::vector<float> steps = group.linear.Steps(distortion);
    for (std::size_t c = 0; c < steps.size(); ++c) {
      if (steps[c] > 0.0f) rank = std::max(rank, static_cast<std::int64_t>(c) + 1);
    }
  }
  for (FusedGroup& group : *groups) CutRank(rank, &group);
}

}  // namespace scd
