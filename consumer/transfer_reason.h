// Why a prompt was not, or not completely, served from codes: a closed list, used in reports, errors and
// metrics.
#ifndef SCD_CONSUMER_TRANSFER_REASON_H_
#define SCD_CONSUMER_TRANSFER_REASON_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace scd {

enum class TransferReason : std::uint8_t {
  kNone,                 // served as asked
  kPolicyOff,            // the policy says native
  kShortPrompt,          // native head, native tail and last token leave nothing to transfer
  kUntranslatableToken,  // the prompt holds an id that the producer lacks or maps to other text
  kProducerUnavailable,  // no connection, or it broke
  kDeadline,             // the transfer's time budget ran out
  kHandshake,            // the producer holds another model, tokenizer or bundle
  kRefused,              // the producer refused the request
  kProducerError,        // the producer failed while it served
  kBadHeader,            // the header is not an answer to what was asked
  kCorruptFrame,  // wrong checksum, fields that contradict each other, repeated or out of range, not finite
  kIncomplete,    // the stream ended before every code had arrived
  kRebuild,       // the codes could not be rebuilt
  kCancelled,     // the request ended while its transfer ran
};

inline constexpr std::array kAllTransferReasons = {TransferReason::kPolicyOff,
                                                   TransferReason::kShortPrompt,
                                                   TransferReason::kUntranslatableToken,
                                                   TransferReason::kProducerUnavailable,
                                                   TransferReason::kDeadline,
                                                   TransferReason::kHandshake,
                                                   TransferReason::kRefused,
                                                   TransferReason::kProducerError,
                                                   TransferReason::kBadHeader,
                                                   TransferReason::kCorruptFrame,
                                                   TransferReason::kIncomplete,
                                                   TransferReason::kRebuild,
                                                   TransferReason::kCancelled};

// "" for kNone, else "producer_unavailable", ...
std::string_view TransferReasonName(TransferReason reason);

// What ended a transfer: kNone with OK, or a reason with the error behind it.
struct TransferOutcome {
  TransferReason reason = TransferReason::kNone;
  absl::Status status;

  bool ok() const { return reason == TransferReason::kNone; }
};

// The status that a request gets whose policy is `require`: a code that tells a caller what to do
// (UNAVAILABLE: try again), and a text that starts with the reason.
absl::Status StatusForRequiredTransfer(const TransferOutcome& outcome);

}  // namespace scd

#endif  // SCD_CONSUMER_TRANSFER_REASON_H_
