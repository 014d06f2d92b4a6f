// Ranks, Patch layers, distortions and calibration sizes, one at a time.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "eval/ablation_grid.h"
#include "eval/calibration_runs.h"
#include "eval/commands.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

template <typename T>
void KeepFirst(std::vector<T>* items, std::int64_t count) {
  if (count > 0 && static_cast<std::size_t>(count) < items->size())
    items->resize(static_cast<std::size_t>(count));
}

EvalData PartOf(const EvalData& data, const AblateConfig& config) {
  EvalData part = data;
  KeepFirst(&part.windows, config.windows);
  KeepFirst(&part.questions, config.questions);
  return part;
}

AblationFigures FiguresOf(const ModeFigures& figures, const ResolvedRow& row) {
  AblationFigures out;
  out.rank_k = row.row.spec.rank_k;
  out.rank_v = row.row.spec.rank_v;
  out.rank_h = row.row.spec.rank_h;
  if (row.plan) out.patch_layers = row.plan->patch_layers();
  out.distortion = row.row.spec.distortion;
  out.bytes_per_token = figures.bytes_per_token;
  out.kl = figures.kl;
  out.ppl = figures.ppl;
  out.tv = figures.tv;
  out.kl_answer = figures.kl_answer;
  out.ttft_ms_codes_ready = figures.ttft_ms_codes_ready;
  return out;
}

class Ablator {
 public:
  explicit Ablator(EvalRun& run)
      : run_(run),
        data_(PartOf(run.data, run.config.ablate)),
        selection_{.windows = true,
                   .answers = false,
                   .answer_kl = true,
                   .ready_questions = run.config.ablate.ready_questions} {}

  // Those of one bundle, on one start of the daemons.
  absl::Status MeasureBundle(const std::vector<Ablation>& ablations) {
    SCD_ASSIGN_OR_RETURN(const auto pair, OpenWithBundle(run_.config));
    std::vector<std::vector<ResolvedRow>> rows;
    for (const Ablation ablation : ablations) {
      SCD_ASSIGN_OR_RETURN(rows.emplace_back(),
                           ResolveRows(pair->session(), AblationRows(ablation, run_.config.ablate,
                                                                     pair->session().bundle()->manifest())));
    }
    for (std::size_t i = 0; i < ablations.size(); ++i) {
      run_.results.ablations.push_back({.name = std::string(AblationName(ablations[i])), .rows = {}});
      SCD_RETURN_IF_ERROR(Measure(*pair, rows[i], std::nullopt));
    }
    return absl::OkStatus();
  }

  // One bundle, and one start of the daemons, for each number of prefixes.
  absl::Status MeasureCalibrations() {
    const PairDescription described = run_.results.pair;
    SCD_ASSIGN_OR_RETURN(const CalibrationFolder folder,
                         CalibrationFolder::Create(run_.config.ablate.calibrate_folder));
    run_.results.ablations.push_back(
        {.name = std::string(AblationName(Ablation::kCalibrationPrefixes)), .rows = {}});
    for (const std::int64_t prefixes : run_.config.ablate.calibration_prefixes) {
      EvalConfig config = run_.config;
      SCD_ASSIGN_OR_RETURN(config.daemons.bundle,
                           FitBundle(config, prefixes, folder.path(), run_.log, run_.terminal.stop));
      SCD_ASSIGN_OR_RETURN(const auto pair, OpenWithBundle(config));
      SCD_ASSIGN_OR_RETURN(
          const std::vector<ResolvedRow> rows,
          ResolveRows(pair->session(), AblationRows(Ablation::kCalibrationPrefixes, run_.config.ablate,
                                                    pair->session().bundle()->manifest())));
      SCD_RETURN_IF_ERROR(
          Measure(*pair, rows, pair->session().bundle()->manifest().calibration.num_prefixes));
    }
    // The document describes the operator's own bundle where that was measured too.
    if (!described.bundle_digest.empty()) run_.results.pair = described;
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::unique_ptr<RunningPair>> OpenWithBundle(const EvalConfig& config) {
    SCD_ASSIGN_OR_RETURN(auto pair, OpenPair(run_, config));
    if (pair->session().bundle() == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("ablate goes by the bundle's manifest, and the consumer's bundle, ",
                       pair->session().description().bundle_path, ", cannot be read from here"));
    }
    return pair;
  }

  absl::Status Measure(RunningPair& pair, const std::vector<ResolvedRow>& rows,
                       const std::optional<std::int64_t>& calibration_prefixes) {
    AblationResults& results = run_.results.ablations.back();
    Progress* shown = nullptr;
    Measurement measurement(pair.session(), data_, {run_.config.eval.max_tokens, run_.config.eval.stop},
                            selection_, [&shown] { shown->Add(1); });
    Progress progress(run_.log, run_.progress, results.name, "requests", measurement.NumRequests(rows));
    shown = &progress;
    for (const ResolvedRow& row : rows) {
      auto figures = measurement.Measure(row);
      SCD_RETURN_IF_ERROR(pair.Explain(figures.status()));
      results.rows.push_back(FiguresOf(*figures, row));
      results.rows.back().calibration_prefixes = calibration_prefixes;
    }
    return absl::OkStatus();
  }

  EvalRun& run_;
  const EvalData data_;
  const MeasureSelection selection_;
};

}  // namespace

absl::Status RunAblate(EvalRun& run) {
  std::vector<Ablation> of_one_bundle;
  bool calibrations = false;
  for (const Ablation ablation : run.config.ablate.run) {
    if (ablation == Ablation::kCalibrationPrefixes) {
      calibrations = true;
    } else {
      of_one_bundle.push_back(ablation);
    }
  }
  if (calibrations && !run.config.consumer.empty()) {
    return absl::InvalidArgumentError(
        "ablate.run: calibration_prefixes starts the daemons with each bundle, and consumer names a running "
        "pair");
  }
  Ablator ablator(run);
  if (!of_one_bundle.empty()) SCD_RETURN_IF_ERROR(ablator.MeasureBundle(of_one_bundle));
  return calibrations ? ablator.MeasureCalibrations() : absl::OkStatus();
}

}  // namespace scd
