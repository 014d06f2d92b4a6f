#include "consumer/generate_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;
constexpr int kMaxStops = 16;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr int kMaxStopTokenIds = 128;
constexpr std::uint32_t kMaxTopLogprobs = 20;

absl::Status CheckStops(const v1::GenerateRequest& request) {
  if (request.stop_size() > kMaxStops) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop: has ", request.stop_size(), " texts, at most ", kMaxStops, " are allowed"));
  }
  for (int i = 0; i < request.stop_size(); ++i) {
    if (!request.stop(i).empty() && request.stop(i).size() <= kMaxStopBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("stop[", i, "]: is ", request.stop(i).size(),
                                                   " bytes long, expected 1 .. ", kMaxStopBytes));
  }
  if (request.stop_token_ids_size() > kMaxStopTokenIds) {
    return absl::InvalidArgumentError(absl::StrCat("stop_token_ids: has ", request.stop_token_ids_size(),
                                                   " ids, at most ", kMaxStopTokenIds, " are allowed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SamplingParams> CheckSampling(const v1::GenerateRequest& request) {
  const v1::Sampling& from = request.sampling();
  if (from.top_k() > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("sampling.top_k: ", from.top_k(), " is out of range"));
  }
  if (request.top_logprobs() > kMaxTopLogprobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_logprobs: ", request.top_logprobs(), " is over ", kMaxTopLogprobs));
  }
  SamplingParams params;
  params.temperature = from.temperature();
  params.top_k = static_cast<std::int32_t>(from.top_k());
  if (from.has_top_p()) params.top_p = from.top_p();
  params.min_p = from.min_p();
  if (from.has_repetition_penalty()) params.repetition_penalty = from.repetition_penalty();
  params.seed = from.seed();
  params.num_top_logprobs = static_cast<std::int32_t>(request.top_logprobs());
  SCD_RETURN_IF_ERROR(params.Validate());
  return params;
}

}  // namespace

absl::StatusOr<CheckedGenerate> CheckGenerate(const v1::GenerateRequest& request,
                                              const PromptEncoder& encoder, const GenerateLimits& limits) {
  SCD_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  SCD_RETURN_IF_ERROR(CheckStops(request));
  CheckedGenerate checked;
  SCD_ASSIGN_OR_RETURN(checked.sampling, CheckSampling(request));
  checked.stop.assign(request.stop().begin(), request.stop().end());
  checked.stop_token_ids.assign(request.stop_token_ids().begin(), request.stop_token_ids().end());
  SCD_RETURN_IF_ERROR(encoder.CheckIds("stop_token_ids", checked.stop_token_ids));
  if (!request.ignore_eos()) {
    checked.stop_token_ids.insert(checked.stop_token_ids.end(), limits.end_token_ids.begin(),
                                  limits.end_token_ids.end());
  }
  if (request.max_tokens() > limits.max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("max_tokens: ", request.max_tokens(),
                                                   " is over this server's limit, ", limits.max_tokens));
  }
  SCD_ASSIGN_OR_RETURN(checked.prompt, encoder.Encode(request.prompt()));
  const std::int64_t room = limits.max_positions - static_cast<std::int64_t>(checked.prompt.size());
  checked.max_tokens = request.max_tokens();
  if (checked.max_tokens == 0) checked.max_tokens = std::min(limits.default_max_tokens, room);
  if (checked.max_tokens < 1 || checked.max_tokens > room) {
    return absl::InvalidArgumentError(absl::StrCat("max_tokens: ", request.max_tokens(), " after ",
                                                   checked.prompt.size(), " prompt tokens: only ",
                                                   limits.max_positions, " positions can be served"));
  }
  return checked;
}

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.size() <= kMaxRequestIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("request_id: is ", request_id.size(), " bytes long, at most ", kMaxRequestIdBytes));
}

}  // namespace scd
