#include "consumer/shared_codes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "common/cache/block_keys.h"
#include "common/store/code_keys.h"
#include "common/store/stored_codes.h"
#include "common/wire/frame_codec.h"
#include "common/wire/payload_format.h"
#include "common/wire/transfer_checker.h"
#include "consumer/code_check.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// What FindCodes has looked at is of the right size; the rest is as for a frame.
absl::Status CheckCode(const LayerCode& code, TransferChecker& checker) {
  SCD_RETURN_IF_ERROR(CheckPayload(code.codec, code.kind, code.num_tokens, code.rank, code.payload));
  SCD_RETURN_IF_ERROR(checker.Accept(code));
  return CheckCodeNumbers(code);
}

}  // namespace

std::optional<SharedCodes::Codes> SharedCodes::Find(const CodeRequest& request) {
  for (const CodeSource& source : store_->FindSources(bundle_)) {
    if (absl::Now() >= request.deadline) break;
    if (std::optional<Codes> found = FindOf(request, source)) {
      ++num_served_;
      return found;
    }
  }
  ++num_unknown_;
  return std::nullopt;
}

std::optional<SharedCodes::Codes> SharedCodes::FindOf(const CodeRequest& request, const CodeSource& source) {
  const TokenRange& range = request.range;
  const std::int64_t tokens = source.block_tokens;
  const std::int64_t least_end = std::max(range.begin + 1, range.end - request.max_uncoded_tokens);
  // Blocks are whole: no more can be known.
  if (range.end / tokens * tokens < least_end) return std::nullopt;
  const std::vector<Digest> page_keys = BlockKeys(
      source.seed, absl::MakeConstSpan(*request.prompt).first(static_cast<std::size_t>(range.end)), tokens);
  const std::vector<Digest> keys = CodeKeys(bundle_, request.plan, range.begin, page_keys, tokens);
  const std::int64_t needed = (least_end + tokens - 1) / tokens - range.begin / tokens;
  if (store_->CountPrefix(keys) < needed || absl::Now() >= request.deadline) return std::nullopt;
  StoredCodes stored = FindCodes(*store_, request.plan, range.begin, keys, tokens);
  Codes found;
  found.range = {range.begin, range.begin + stored.num_tokens()};
  if (found.range.end < least_end) return std::nullopt;

  TransferChecker checker(request.plan, found.range.begin, found.range.end);
  StoredCodeReader reader(request.plan, std::move(stored), kMaxFramePayloadBytes);
  for (LayerCode code; reader.Next(&code); code = {}) {
    if (!CheckCode(code, checker).ok()) return std::nullopt;
    found.codes.push_back(std::move(code));
  }
  return checker.complete() ? std::optional<Codes>(std::move(found)) : std::nullopt;
}

}  // namespace scd
