#include "eval/eval_run.h"

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
