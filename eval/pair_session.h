// A running pair as the evaluation sees it: requests that move their prompt's state as a row says, checked to
// have done so. The only part of scd-eval that knows the protocol's messages.
#ifndef SCD_EVAL_PAIR_SESSION_H_
#define SCD_EVAL_PAIR_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/rpc.h"
#include "common/bundle/bundle.h"
#include "eval/figures.h"
#include "eval/mode_row.h"
#include "eval/pair_description.h"
#include "eval/transfer_check.h"

namespace scd {

struct PairSessionOptions {
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration request_timeout = absl::Seconds(300);
  absl::Duration transfer_timeout = absl::Seconds(240);
};

struct AnswerOptions {
  std::int64_t max_tokens = 12;
  std::vector<std::string> stop = {"\n"};
};

// A row with the plan that its transfers are held to.
struct ResolvedRow {
  ModeRow row;
  std::optional<LayerPlan> plan;  // absent: local, or the bundle cannot be read from here

  // The plan in words, the consumer's own where only it knows it.
  std::string plan_text;
};

class PairSession {
 public:
  // UNAVAILABLE where nothing answers. `stop` ends every request.
  static absl::StatusOr<std::unique_ptr<PairSession>> Open(const std::string& consumer_address,
                                                           const PairSessionOptions& options,
                                                           const std::stop_token& stop);

  const PairDescription& description() const { return description_; }
  // The bundle in force, where its folder is readable from here; else null.
  const Bundle* bundle() const { return bundle_.get(); }

  // INVALID_ARGUMENT naming the row and the field that the bundle cannot do.
  absl::StatusOr<ResolvedRow> Resolve(const ModeRow& row) const;

  // The continuation (possibly empty) after the prompt, with KL and total variation against native prefill.
  // Each call: policy require. The errors of CheckTransfer and CheckPositions, and those of the request.
  absl::StatusOr<ScoredText> Score(const ResolvedRow& row, const EvalPrompt& prompt,
                                   const std::vector<std::int32_t>& continuation);
  // The greedy answer.
  absl::StatusOr<GeneratedText> Generate(const ResolvedRow& row, const EvalPrompt& prompt,
                                         const AnswerOptions& options, CodeUse use = CodeUse::kFresh);

 private:
  PairSession(std::unique_ptr<Connection> connection, const PairSessionOptions& options);
  absl::Status Describe(const std::stop_token& stop);

  const std::unique_ptr<Connection> connection_;
  const PairSessionOptions options_;
  PairDescription description_;
  std::unique_ptr<Bundle> bundle_;
};

}  // namespace scd

#endif  // SCD_EVAL_PAIR_SESSION_H_
