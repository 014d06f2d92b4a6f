// Fits of layers side by side: those that an earlier run fitted are taken from the work folder, each that is
// ready is kept there.
#ifndef SCD_CALIBRATE_LAYER_FITS_H_
#define SCD_CALIBRATE_LAYER_FITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "common/io/digest.h"
#include "kernels/status_macros.h"

namespace scd {

template <typename Layer>
struct LayerFits {
  std::string stage;            // "aligners"
  std::string record;           // of layer 3 and "patch": "patch-3"
  std::string unit = "epochs";  // of progress
  std::int64_t units = 1;       // of one layer
  // Of everything that a layer's fit depends on.
  std::function<Digest(std::int64_t layer)> digest;
  std::function<WorkRecord(const Layer& fitted)> to_record;
  // Absent where the record does not have the sizes that are asked for.
  std::function<std::optional<Layer>(const WorkRecord& record, std::int64_t layer)> from_record;
  // on_progress(fraction of the layer, in [0, 1]).
  std::function<absl::StatusOr<Layer>(HostMath& math, std::int64_t layer,
                                      const std::function<void(double)>& on_progress)>
      fit;
  std::function<void(const Layer& fitted)> log;
};

// One for each of `layers`, in their order.
template <typename Layer>
absl::StatusOr<std::vector<Layer>> RunLayerFits(const RunContext& context, const LayerFits<Layer>& fits,
                                                absl::Span<const std::int64_t> layers, int num_threads) {
  std::vector<Layer> out(layers.size());
  std::vector<std::size_t> open;  // layers that no earlier run fitted
  const auto name = [&](std::int64_t layer) { return absl::StrCat(fits.record, "-", layer); };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::optional<Layer> known;
    if (const auto record = context.work.Read(name(layers[i]), fits.digest(layers[i])); record.ok()) {
      known = fits.from_record(*record, layers[i]);
    }
    if (known) {
      out[i] = *std::move(known);
    } else {
      open.push_back(i);
    }
  }
  if (open.size() < layers.size()) {
    context.log.Info(absl::StrCat(fits.stage, ": ", layers.size() - open.size(), " of ", layers.size(),
                                  " layers were fitted by an earlier run"));
  }
  const auto count = static_cast<std::int64_t>(open.size());
  if (count == 0) return out;

  SCD_ASSIGN_OR_RETURN(const auto workers, WorkerPool::Create(num_threads, count, context.device));
  Progress progress(context.log, context.progress, fits.stage, fits.unit, count * fits.units);
  SCD_RETURN_IF_ERROR(workers->Run(count, [&](HostMath& math, std::int64_t job) -> absl::Status {
    const std::size_t i = open[static_cast<std::size_t>(job)];
    std::int64_t shown = 0;
    const auto on_progress = [&](double fraction) {
      const auto units = static_cast<std::int64_t>(fraction * static_cast<double>(fits.units) + 1e-6);
      if (units > shown) progress.Add(units - shown);
      shown = std::max(shown, units);
    };
    SCD_ASSIGN_OR_RETURN(out[i], fits.fit(math, layers[i], on_progress));
    fits.log(out[i]);
    return context.work.Write(name(layers[i]), fits.digest(layers[i]), fits.to_record(out[i]));
  }));
  return out;
}

}  // namespace scd

#endif  // SCD_CALIBRATE_LAYER_FITS_H_
