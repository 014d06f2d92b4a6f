#include "producer/request_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/wire/frame_codec.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

absl::Status CheckRange(const v1::PrefillRequest& request, const ServedModel& served) {
  const std::int64_t end = request.end_token();
  if (request.token_ids_size() != end) {
    return absl::InvalidArgumentError(
        absl::StrCat("token_ids: has ", request.token_ids_size(), " tokens, but end_token is ", end,
                     ": the prompt is sent from its start to end_token, no further"));
  }
  if (end > served.max_prompt_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("end_token: ", end,
                                                   " is over this producer's longest prompt of ",
                                                   served.max_prompt_tokens, " tokens"));
  }
  if (request.first_token() >= request.end_token()) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_token: ", request.first_token(), " is not before end_token ", end));
  }
  return absl::OkStatus();
}

absl::Status CheckIds(const v1::PrefillRequest& request, const ServedModel& served, const Bundle& bundle) {
  const std::vector<std::int32_t>& untranslatable = bundle.manifest().untranslatable_ids;
  for (int i = 0; i < request.token_ids_size(); ++i) {
    const std::int32_t id = request.token_ids(i);
    if (id < 0 || id >= served.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids[", i, "]: ", id, " is outside the vocabulary of ", served.vocab_size));
    }
    if (std::binary_search(untranslatable.begin(), untranslatable.end(), id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids[", i, "]: ", id, " means another text to this producer's model"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PrefillInput> CheckPrefillRequest(const v1::PrefillRequest& request,
                                                 const ServedModel& served) {
  const absl::StatusOr<Digest> digest = Digest::FromBytes(request.bundle_digest());
  if (!digest.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("bundle_digest: has ", request.bundle_digest().size(),
                                                   " bytes, expected ", Digest::kBytes));
  }
  PrefillInput input;
  SCD_ASSIGN_OR_RETURN(input.bundle, served.bundles->Find(*digest));
  SCD_ASSIGN_OR_RETURN(input.plan, PlanFromProto(request.plan()));
  SCD_RETURN_IF_ERROR(input.bundle->CheckPlan(input.plan));
  SCD_RETURN_IF_ERROR(CheckRange(request, served));
  SCD_RETURN_IF_ERROR(CheckIds(request, served, *input.bundle));
  input.token_ids.assign(request.token_ids().begin(), request.token_ids().end());
  input.first_token = request.first_token();
  return input;
}

}  // namespace scd
