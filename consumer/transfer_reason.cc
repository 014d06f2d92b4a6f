#include "consumer/transfer_reason.h"

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

absl::StatusCode CodeFor(const TransferOutcome& outcome) {
  switch (outcome.reason) {
    case TransferReason::kNone:
      return absl::StatusCode::kOk;
    case TransferReason::kUntranslatableToken:
    case TransferReason::kHandshake:
    case TransferReason::kPolicyOff:
    case TransferReason::kShortPrompt:
      return absl::StatusCode::kFailedPrecondition;
    case TransferReason::kRefused:
      return outcome.status.code();
    case TransferReason::kBadHeader:
    case TransferReason::kCorruptFrame:
      return absl::StatusCode::kDataLoss;
    case TransferReason::kRebuild:
      return absl::StatusCode::kInternal;
    case TransferReason::kCancelled:
      return absl::StatusCode::kCancelled;
    case TransferReason::kProducerUnavailable:
    case TransferReason::kDeadline:
    case TransferReason::kProducerError:
    case TransferReason::kIncomplete:
      return absl::StatusCode::kUnavailable;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

std::string_view TransferReasonName(TransferReason reason) {
  switch (reason) {
    case TransferReason::kNone:
      return "";
    case TransferReason::kPolicyOff:
      return "policy_off";
    case TransferReason::kShortPrompt:
      return "short_prompt";
    case TransferReason::kUntranslatableToken:
      return "untranslatable_token";
    case TransferReason::kProducerUnavailable:
      return "producer_unavailable";
    case TransferReason::kDeadline:
      return "deadline";
    case TransferReason::kHandshake:
      return "handshake";
    case TransferReason::kRefused:
      return "refused";
    case TransferReason::kProducerError:
      return "producer_error";
    case TransferReason::kBadHeader:
      return "bad_header";
    case TransferReason::kCorruptFrame:
      return "corrupt_frame";
    case TransferReason::kIncomplete:
      return "incomplete";
    case TransferReason::kRebuild:
      return "rebuild";
    case TransferReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

absl::Status StatusForRequiredTransfer(const TransferOutcome& outcome) {
  if (outcome.ok()) return absl::OkStatus();
  return absl::Status(CodeFor(outcome), absl::StrCat("the prompt's state could not be transferred (",
                                                     std::string(TransferReasonName(outcome.reason)),
                                                     "): ", outcome.status.message()));
}

}  // namespace scd
