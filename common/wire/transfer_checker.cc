#include "common/wire/transfer_checker.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// The place of a kind among a layer's parts; also for numbers that are no kind.
std::int64_t IndexOf(CodeKind kind) {
  return static_cast<std::int64_t>(kind) - 1;
}
CodeKind KindAt(std::int64_t index) {
  return static_cast<CodeKind>(index + 1);
}

}  // namespace

TransferChecker::TransferChecker(const LayerPlan& plan, std::int64_t first_token, std::int64_t end_token)
    : codec_(plan.codec), first_token_(first_token), end_token_(end_token) {
  for (const LayerRanks& layer : plan.layers) {
    const std::size_t first_part = parts_.size();
    parts_.resize(first_part + kKinds, {.rank = 0, .next = first_token});
    for (const SentKind& sent : SentKinds(layer)) {
      parts_[first_part + static_cast<std::size_t>(IndexOf(sent.kind))].rank = sent.rank;
      if (end_token > first_token) missing_ += end_token - first_token;
    }
  }
}

absl::Status TransferChecker::CheckNext(const LayerCode& code, const Part& part) const {
  const auto bad = [](const auto&... what) { return absl::DataLossError(absl::StrCat(what...)); };
  if (part.rank == 0) return bad("the plan asks for no such codes");
  if (code.rank != part.rank) return bad("has rank ", code.rank, ", the plan asks for ", part.rank);
  if (code.codec != codec_) {
    return bad("is ", std::string(CodecName(code.codec)), ", the plan asks for ",
               std::string(CodecName(codec_)));
  }
  if (code.num_tokens < 1) return bad("holds no tokens");
  if (code.first_token < first_token_ || code.first_token >= end_token_ ||
      code.num_tokens > end_token_ - code.first_token) {
    return bad("is outside the transfer's range [", first_token_, ", ", end_token_, ")");
  }
  if (code.first_token < part.next) return bad("was sent before: position ", part.next, " comes next");
  if (code.first_token > part.next) return bad("leaves a gap: position ", part.next, " comes next");
  return absl::OkStatus();
}

absl::Status TransferChecker::Accept(const LayerCode& code) {
  const auto num_layers = static_cast<std::int64_t>(parts_.size()) / kKinds;
  const std::int64_t kind = IndexOf(code.kind);
  if (code.layer < 0 || code.layer >= num_layers || kind < 0 || kind >= kKinds) {
    return absl::DataLossError(absl::StrCat("a code for layer ", code.layer, ", kind ", kind + 1,
                                            ": the plan has ", num_layers, " layers and kinds 1 to ",
                                            kKinds));
  }
  Part& part = parts_[static_cast<std::size_t>(code.layer * kKinds + kind)];
  if (const absl::Status status = CheckNext(code, part); !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("code of layer ", code.layer, " ", std::string(CodeKindName(code.kind)), ", ",
                     code.num_tokens, " tokens from position ", code.first_token, ": ", status.message()));
  }
  part.next += code.num_tokens;
  missing_ -= code.num_tokens;
  return absl::OkStatus();
}

absl::Status TransferChecker::CheckComplete() const {
  if (complete()) return absl::OkStatus();
  std::int64_t index = 0;
  while (parts_[static_cast<std::size_t>(index)].rank == 0 ||
         parts_[static_cast<std::size_t>(index)].next >= end_token_) {
    ++index;
  }
  const Part& part = parts_[static_cast<std::size_t>(index)];
  return absl::DataLossError(absl::StrCat("codes are missing, first those of layer ", index / kKinds, " ",
                                          std::string(CodeKindName(KindAt(index % kKinds))), ", positions [",
                                          part.next, ", ", end_token_, ")"));
}

}  // namespace scd
