#include "eval/transfer_check.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/wire/entropy_coder.h"
#include "common/wire/payload_format.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Sums of logarithms in f32 may be this far on the wrong side of 0.
constexpr double kRounding = 1e-4;

absl::Status Differs(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the transfer did not do what was asked: ", std::string(what)));
}

absl::Status CheckLocal(const TransferFigures& got) {
  if (got.transferred_tokens != 0 || got.received_bytes != 0) {
    return Differs(absl::StrCat("mode local, but ", got.transferred_tokens, " tokens and ",
                                got.received_bytes, " bytes came from the producer"));
  }
  if (got.computed_tokens != got.prompt_tokens) {
    return Differs(absl::StrCat("mode local computed ", got.computed_tokens, " of ", got.prompt_tokens,
                                " prompt tokens"));
  }
  return absl::OkStatus();
}

struct ByteRange {
  std::int64_t least = 0, most = 0;
};

// A group that its tokens do not fill has a scale and a minimum all the same: least where all but the last
// are full, most where the producer's chunks are of one token. What is entropy coded may take anything from
// granules that say nothing to escapes alone.
ByteRange CodeBytes(const LayerPlan& plan, std::int64_t num_tokens) {
  ByteRange bytes;
  for (const LayerRanks& layer : plan.layers) {
    for (const SentKind& sent : SentKinds(layer)) {
      if (plan.codec == Codec::kEntropy) {
        bytes.least += LargestEntropyPayload(num_tokens, 0);
        bytes.most += LargestEntropyPayload(1, sent.rank) * num_tokens;
        continue;
      }
      bytes.least += PayloadBytes(plan.codec, sent.kind, num_tokens, sent.rank);
      bytes.most += PayloadBytes(plan.codec, sent.kind, 1, sent.rank) * num_tokens;
    }
  }
  return bytes;
}

absl::Status CheckBytes(const LayerPlan* plan, CodeUse use, const TransferFigures& got) {
  if (got.code_bytes <= 0 || got.received_bytes < got.code_bytes) {
    return Differs(
        absl::StrCat(got.code_bytes, " bytes of codes in ", got.received_bytes, " received bytes"));
  }
  if (plan == nullptr || use == CodeUse::kStored) return absl::OkStatus();
  const ByteRange expected = CodeBytes(*plan, got.transferred_tokens);
  if (got.code_bytes >= expected.least && got.code_bytes <= expected.most) return absl::OkStatus();
  const std::string most = expected.most == expected.least ? "" : absl::StrCat(" to ", expected.most);
  return Differs(absl::StrCat(got.code_bytes, " bytes of codes for ", got.transferred_tokens,
                              " tokens; the plan (", plan->ToString(), ") makes ", expected.least, most));
}

}  // namespace

absl::Status CheckTransfer(const TransferSpec& asked, const LayerPlan* plan, CodeUse use,
                           const TransferFigures& got) {
  if (got.reason == "short_prompt") {
    return Differs(absl::StrCat("the prompt's ", got.prompt_tokens,
                                " tokens leave nothing to transfer at native head ", asked.native_head,
                                " and tail ", asked.native_tail, "; leave it out or lower them"));
  }
  if (got.mode != asked.mode) {
    return Differs(
        absl::StrCat("mode ", asked.mode, " was asked for, ", got.mode, " served",
                     got.reason.empty() ? "" : absl::StrCat(" (", got.reason, ": ", got.detail, ")")));
  }
  if (got.prompt_tokens <= 0) return Differs("the prompt is said to have no tokens");
  if (asked.is_local()) return CheckLocal(got);
  const std::int64_t planned = got.prompt_tokens - 1 - asked.native_head - asked.native_tail;
  const bool as_planned = use == CodeUse::kFresh
                              ? got.transferred_tokens == planned
                              : got.transferred_tokens > 0 && got.transferred_tokens <= planned;
  if (!as_planned) {
    return Differs(absl::StrCat(got.transferred_tokens, " tokens were transferred, the plan says ", planned,
                                " of ", got.prompt_tokens));
  }
  if (got.cached_tokens != 0 || got.transferred_tokens + got.computed_tokens != got.prompt_tokens) {
    return Differs(absl::StrCat(got.transferred_tokens, " transferred, ", got.computed_tokens,
                                " computed and ", got.cached_tokens, " cached tokens for a prompt of ",
                                got.prompt_tokens));
  }
  if (use == CodeUse::kFresh && got.stored_tokens != 0) {
    return Differs(
        absl::StrCat(got.stored_tokens, " tokens came from the producer's code store, which was ruled out"));
  }
  return CheckBytes(plan, use, got);
}

absl::Status CheckPositions(const ScoredText& scored, std::int64_t num_expected) {
  if (static_cast<std::int64_t>(scored.positions.size()) != num_expected) {
    return absl::DataLossError(
        absl::StrCat(scored.positions.size(), " positions were scored instead of ", num_expected));
  }
  for (std::size_t i = 0; i < scored.positions.size(); ++i) {
    const PositionFigures& p = scored.positions[i];
    const bool finite = std::isfinite(p.logprob) && std::isfinite(p.native_logprob) && std::isfinite(p.kl) &&
                        std::isfinite(p.tv);
    const bool possible = p.logprob <= kRounding && p.native_logprob <= kRounding && p.kl >= -kRounding &&
                          p.tv >= -kRounding && p.tv <= 1 + kRounding;
    if (finite && possible) continue;
    return absl::DataLossError(
        absl::StrFormat("position %d: log-probability %g (native %g), KL %g, total variation %g cannot be", i,
                        p.logprob, p.native_logprob, p.kl, p.tv));
  }
  return absl::OkStatus();
}

}  // namespace scd
