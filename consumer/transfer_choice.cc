#include "consumer/transfer_choice.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/transfer_modes.h"
#include "common/wire/frame_codec.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr int kMaxPatchLayers = 4096;

absl::StatusOr<TransferPolicy> ChoosePolicy(TransferPolicy server, v1::Policy request) {
  switch (request) {
    case v1::POLICY_UNSPECIFIED:
      return server;
    case v1::POLICY_REQUIRE:
      return TransferPolicy::kRequire;
    case v1::POLICY_PREFER:
      return TransferPolicy::kPrefer;
    case v1::POLICY_OFF:
      return TransferPolicy::kOff;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("transfer.policy: ", static_cast<int>(request), " is no policy"));
  }
}

absl::StatusOr<PlanRequest> FromProto(const v1::PlanOverride& proto) {
  PlanRequest plan;
  if (proto.has_rank_k()) plan.rank_k = proto.rank_k();
  if (proto.has_rank_v()) plan.rank_v = proto.rank_v();
  if (proto.has_rank_h()) plan.rank_h = proto.rank_h();
  if (proto.has_native_head()) plan.native_head = proto.native_head();
  if (proto.has_native_tail()) plan.native_tail = proto.native_tail();
  if (proto.has_codec()) {
    const auto codec = CodecFromProto(proto.codec());
    if (!codec.ok()) return absl::InvalidArgumentError(absl::StrCat("plan.", codec.status().message()));
    plan.codec = *codec;
  }
  if (proto.has_distortion()) plan.distortion = proto.distortion();
  if (proto.has_recompute_layers()) {
    plan.recompute_layers = LayerRange{proto.recompute_layers().first(), proto.recompute_layers().last()};
  }
  if (proto.has_patch_layers()) {
    const auto& layers = proto.patch_layers().layers();
    if (layers.size() > kMaxPatchLayers) {
      return absl::InvalidArgumentError(absl::StrCat("plan.patch_layers: has ", layers.size(), " entries"));
    }
    plan.patch_layers.emplace(layers.begin(), layers.end());
  }
  return plan;
}

// Mode and plan of a request for choice->mode.
absl::Status ResolvePlan(const TransferDefaults& defaults, const v1::PlanOverride& request,
                         TransferChoice* choice) {
  SCD_ASSIGN_OR_RETURN(const PlanRequest asked, FromProto(request));
  PlanRequest all = defaults.plan_request;
  Overlay(asked, &all);
  choice->mode = ResolveMode(choice->mode, defaults.bundle->manifest().fused.rank > 0, all);
  PlanRequest plan = PlanRequestFor(choice->mode, defaults.plan_request);
  Overlay(asked, &plan);
  SCD_RETURN_IF_ERROR(CheckModeRequest(choice->mode, plan));
  SCD_ASSIGN_OR_RETURN(choice->plan, defaults.bundle->ResolvePlan(plan));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TransferChoice> ChooseTransfer(const TransferDefaults& defaults, const v1::Transfer& request) {
  TransferChoice choice;
  choice.mode = request.mode().empty() ? defaults.mode : request.mode();
  if (!IsModeChoice(choice.mode)) {
    return absl::InvalidArgumentError(absl::StrCat("transfer.mode: ", ModeNamesText()));
  }
  SCD_ASSIGN_OR_RETURN(choice.policy, ChoosePolicy(defaults.policy, request.policy()));
  choice.timeout = request.timeout_ms() == 0 ? defaults.timeout : absl::Milliseconds(request.timeout_ms());
  choice.no_code_store = request.no_code_store();
  choice.no_prefix_cache = request.no_prefix_cache() || request.no_code_store();
  if (choice.mode == kLocalMode) return choice;
  if (defaults.bundle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("transfer.mode: '", choice.mode, "' needs a bundle, and this server has none"));
  }
  if (const absl::Status status = ResolvePlan(defaults, request.plan(), &choice); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("transfer.", status.message()));
  }
  return choice;
}

}  // namespace scd
