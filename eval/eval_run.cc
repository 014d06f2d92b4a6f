#include "eval/eval_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::string NameOf(const ModelDescription& model) {
  return model.description.empty() ? model.digest : model.description;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunningPair>> OpenPair(EvalRun& run, const EvalConfig& config) {
  if (config.consumer.empty()) run.log.Info("starting scd-producer and scd-consumer");
  SCD_ASSIGN_OR_RETURN(auto pair, RunningPair::Open(config, run.terminal.stop));
  run.results.pair = pair->session().description();
  const PairDescription& description = run.results.pair;
  run.log.Info(absl::StrCat("producer ", NameOf(description.producer), ", consumer ",
                            NameOf(description.consumer), ", bundle ", description.bundle_path));
  return pair;
}

std::vector<ModeRow> RowsOfTheBundle(const PairSession& session, std::vector<ModeRow> rows, Log& log) {
  const auto is_fused = [](const ModeRow& row) { return row.spec.mode == "fused"; };
  const bool fits = session.bundle() == nullptr || session.bundle()->manifest().fused.rank > 0;
  if (fits || std::all_of(rows.begin(), rows.end(), is_fused)) return rows;
  const auto end = std::remove_if(rows.begin(), rows.end(), is_fused);
  if (end != rows.end()) {
    log.Warning("rows of mode fused are left out: the bundle has no such translators");
    rows.erase(end, rows.end());
  }
  return rows;
}

absl::StatusOr<std::vector<ResolvedRow>> ResolveRows(const PairSession& session,
                                                     const std::vector<ModeRow>& rows) {
  std::vector<ResolvedRow> resolved;
  for (const ModeRow& row : rows) {
    SCD_ASSIGN_OR_RETURN(ResolvedRow one, session.Resolve(row));
    resolved.push_back(std::move(one));
  }
  return resolved;
}

}  // namespace scd
