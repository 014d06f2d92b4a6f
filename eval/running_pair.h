// The pair that is measured: daemons of this run, or a pair that runs already.
#ifndef SCD_EVAL_RUNNING_PAIR_H_
#define SCD_EVAL_RUNNING_PAIR_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/child_daemons.h"
#include "eval/config.h"
#include "eval/pair_session.h"

namespace scd {

class RunningPair {
 public:
  // The errors of ChildDaemons::Start; UNAVAILABLE where config.consumer names an address at which nothing
  // answers.
  static absl::StatusOr<std::unique_ptr<RunningPair>> Open(const EvalConfig& config,
                                                           const std::stop_token& stop);

  PairSession& session() { return *session_; }
  // What a request's error was about, as ChildDaemons::Explain.
  absl::Status Explain(const absl::Status& error) const;

 private:
  RunningPair() = default;

  std::unique_ptr<ChildDaemons> daemons_;  // null for a pair that ran already
  std::unique_ptr<PairSession> session_;
};

}  // namespace scd

#endif  // SCD_EVAL_RUNNING_PAIR_H_
