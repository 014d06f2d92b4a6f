#include "common/config/transfer_modes.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace scd {
namespace {

struct Mode {
  std::string_view name;
  StateForm form = StateForm::kCodes;
  bool transfers = true;
  bool patches = false;    // may treat layers by Patch
  bool quantized = false;  // integers only, as its name says
};

constexpr std::array kModes = {
    Mode{.name = kScdMode, .form = StateForm::kCodes, .patches = true},
    Mode{.name = "reuse", .form = StateForm::kCodes},
    Mode{.name = kFusedMode, .form = StateForm::kFused},
    Mode{.name = kLocalMode, .transfers = false},
    Mode{.name = "raw", .form = StateForm::kRawRoped},
    Mode{.name = "raw_rerope", .form = StateForm::kRaw},
    Mode{.name = "quantized", .form = StateForm::kRawRoped, .quantized = true},
    Mode{.name = "quantized_rerope", .form = StateForm::kRaw, .quantized = true},
    Mode{.name = "selective", .form = StateForm::kSelective},
};

bool SendsCodes(const Mode& mode) {
  return mode.form == StateForm::kCodes || mode.form == StateForm::kFused;
}

const Mode* Find(std::string_view name) {
  const auto found =
      std::find_if(kModes.begin(), kModes.end(), [name](const Mode& m) { return m.name == name; });
  return found == kModes.end() ? nullptr : &*found;
}

}  // namespace

bool IsModeName(std::string_view name) {
  return Find(name) != nullptr;
}

bool IsModeChoice(std::string_view name) {
  return name == kAutoMode || IsModeName(name);
}

std::vector<std::string> ModeChoices() {
  std::vector<std::string> names = {std::string(kAutoMode)};
  for (const Mode& mode : kModes) names.emplace_back(mode.name);
  return names;
}

std::string ModeNamesText() {
  return absl::StrCat("expected one of ", absl::StrJoin(ModeChoices(), ", "));
}

std::string_view ResolveMode(std::string_view mode, bool has_fused, const PlanRequest& plan) {
  if (mode != kAutoMode) return mode;
  const bool asks_for_scd = plan.rank_k || plan.rank_v || plan.rank_h || plan.patch_layers;
  return has_fused && !asks_for_scd ? kFusedMode : kScdMode;
}

PlanRequest PlanRequestFor(std::string_view name, const PlanRequest& server) {
  const Mode& mode = *Find(name);
  PlanRequest request;
  request.form = mode.form;
  request.native_head = server.native_head;
  request.native_tail = server.native_tail;
  if (mode.form == StateForm::kCodes) {
    request.rank_k = server.rank_k;
    request.rank_v = server.rank_v;
    request.codec = server.codec;
    request.distortion = server.distortion;
    if (mode.patches) {
      request.rank_h = server.rank_h;
      request.patch_layers = server.patch_layers;
    } else {
      request.patch_layers.emplace();
    }
  } else if (mode.form == StateForm::kFused) {
    request.codec = server.codec;
    request.distortion = server.distortion;
  } else if (mode.quantized) {
    request.codec = Codec::kInt4;
  }
  if (mode.form == StateForm::kSelective) request.recompute_layers = server.recompute_layers;
  return request;
}

void Overlay(const PlanRequest& over, PlanRequest* base) {
  if (over.rank_k) base->rank_k = over.rank_k;
  if (over.rank_v) base->rank_v = over.rank_v;
  if (over.rank_h) base->rank_h = over.rank_h;
  if (over.patch_layers) base->patch_layers = over.patch_layers;
  if (over.recompute_layers) base->recompute_layers = over.recompute_layers;
  if (over.native_head) base->native_head = over.native_head;
  if (over.native_tail) base->native_tail = over.native_tail;
  if (over.codec) base->codec = over.codec;
  const bool may_be_entropy = base->codec ? *base->codec == Codec::kEntropy : base->form == StateForm::kFused;
  if (over.distortion || !may_be_entropy) base->distortion = over.distortion;
}

absl::Status CheckModeRequest(std::string_view name, const PlanRequest& request) {
  const Mode& mode = *Find(name);
  const auto bad = [&](absl::string_view field, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("plan.", field, ": mode ", std::string(name), " ", what));
  };
  if (mode.form == StateForm::kCodes && !mode.patches && request.patch_layers &&
      !request.patch_layers->empty()) {
    return bad("patch_layers", "patches no layer; mode scd does");
  }
  if (request.codec && mode.quantized && !IsQuantized(*request.codec)) {
    return bad("codec", "sends int4 or int8");
  }
  if (request.codec && !SendsCodes(mode) && !mode.quantized && *request.codec != Codec::kBF16 &&
      *request.codec != Codec::kF32) {
    return bad("codec", "sends bf16 or f32; the quantized modes send integers");
  }
  return absl::OkStatus();
}

}  // namespace scd
