// Errors of KV and hidden states layer by layer: the one measurement that runs the models in this process.
#include "eval/drift/drift_command.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bundle/bundle.h"
#include "eval/commands.h"
#include "eval/daemon_models.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

PairDescription DescribeBundle(const Bundle& bundle) {
  const BundleManifest& manifest = bundle.manifest();
  return {.producer = {manifest.producer.description, manifest.producer.digest.ToHex()},
          .consumer = {manifest.consumer.description, manifest.consumer.digest.ToHex()},
          .bundle_path = bundle.folder(),
          .bundle_digest = bundle.digest().ToHex(),
          .plan = "",
          .backend = "",
          .num_layers = manifest.num_layers,
          .d_kv = manifest.d_kv(),
          .vocab_size = 0};
}

}  // namespace

absl::Status RunDriftCommand(EvalRun& run) {
  SCD_ASSIGN_OR_RETURN(const DaemonModels models, ReadDaemonModels(run.config.daemons));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Bundle> bundle, Bundle::Open(models.bundle));
  run.results.pair = DescribeBundle(*bundle);
  SCD_ASSIGN_OR_RETURN(const LayerPlan plan, bundle->ResolvePlan({}));
  run.results.pair.plan = plan.ToString();
  run.results.pair.backend = models.backend.device;

  DriftOptions options;
  options.producer = models.producer;
  options.consumer = models.consumer;
  options.bundle = models.bundle;
  options.backend = models.backend;
  options.decode_positions = run.config.drift.decode_positions;
  const std::size_t count =
      std::min(run.data.windows.size(), static_cast<std::size_t>(run.config.drift.prefixes));
  for (std::size_t i = 0; i < count; ++i) {
    options.prefixes.push_back({run.data.windows[i].prefix, run.data.windows[i].continuation});
  }
  run.log.Info(
      absl::StrCat("drift: ", count, " prefixes, ", options.decode_positions, " decode positions of each"));
  Progress progress(run.log, run.progress, "drift", "prefixes", static_cast<std::int64_t>(count));
  auto drift = RunDrift(
      options, [&progress](std::int64_t done) { progress.Set(done); }, run.terminal.stop);
  SCD_RETURN_IF_ERROR(drift.status());
  run.results.drift = *std::move(drift);
  return absl::OkStatus();
}

}  // namespace scd
