#include "consumer/engine_checks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxRowsOption = std::int64_t{1} << 16;

absl::Status CheckOption(absl::string_view name, std::int64_t value, std::int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("engine: ", name, " is ", value, ", expected 1 to ", max));
}

absl::Status CheckIds(absl::string_view field, const std::vector<std::int32_t>& ids,
                      std::int64_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, "[", i, "] is ", ids[i], ", the vocabulary has ", vocab_size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEngineOptions(const EngineOptions& options) {
  constexpr std::int64_t kAny = std::int64_t{1} << 31;
  SCD_RETURN_IF_ERROR(CheckOption("num_pages", options.num_pages, kAny));
  SCD_RETURN_IF_ERROR(CheckOption("page_tokens", options.page_tokens, kAny));
  if (options.swap_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine: swap_bytes is ", options.swap_bytes, ", expected at least 0"));
  }
  SCD_RETURN_IF_ERROR(CheckOption("max_batch_sequences", options.max_batch_sequences, kMaxRowsOption));
  SCD_RETURN_IF_ERROR(CheckOption("prefill_chunk_tokens", options.prefill_chunk_tokens, kMaxRowsOption));
  return CheckOption("max_queued_requests", options.max_queued_requests, kAny);
}

absl::Status CheckEngineRequest(const EngineRequest& request, const Transformer& transformer,
                                const EngineOptions& options) {
  const std::int64_t cache_positions = options.num_pages * options.page_tokens;
  const std::int64_t vocab_size = transformer.config().vocab_size;
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) return absl::InvalidArgumentError("prompt is empty");
  SCD_RETURN_IF_ERROR(CheckIds("prompt", request.prompt, vocab_size));
  if (request.staged_begin < 0 || request.staged_begin > request.staged_end ||
      request.staged_end > prompt - 1) {
    return absl::InvalidArgumentError(absl::StrCat("staged positions [", request.staged_begin, ", ",
                                                   request.staged_end, ") do not lie before the last of ",
                                                   prompt, " prompt tokens"));
  }
  const bool staged = request.staged_begin < request.staged_end;
  const std::int64_t shareable = staged ? request.staged_end : prompt;
  if (static_cast<std::int64_t>(request.block_keys.size()) > shareable / options.page_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("block_keys has ", request.block_keys.size(), " keys, ",
                                                   shareable, " positions have ",
                                                   shareable / options.page_tokens, " whole blocks"));
  }
  if (request.score) {
    SCD_RETURN_IF_ERROR(CheckIds("continuation", request.continuation, vocab_size));
  } else {
    if (request.max_tokens < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("max_tokens is ", request.max_tokens, ", expected at least 1"));
    }
    SCD_RETURN_IF_ERROR(request.sampling.Validate());
  }
  const auto more =
      request.score ? static_cast<std::int64_t>(request.continuation.size()) : request.max_tokens;
  const std::int64_t limit = std::min(transformer.max_positions(), cache_positions);
  if (prompt > limit || more > limit - prompt) {
    return absl::InvalidArgumentError(absl::StrCat(prompt, " prompt tokens and ", more,
                                                   " more, the limit is ", limit,
                                                   " (positions of the model: ", transformer.max_positions(),
                                                   ", of the KV cache: ", cache_positions, ")"));
  }
  return absl::OkStatus();
}

}  // namespace scd
