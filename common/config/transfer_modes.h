// The ways in which a prompt's state can come to a consumer, by the names that YAML and requests use. All but
// "local" are plans for one and the same transfer; docs/evaluation.md compares them.
#ifndef SCD_COMMON_CONFIG_TRANSFER_MODES_H_
#define SCD_COMMON_CONFIG_TRANSFER_MODES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/config/layer_plan.h"

namespace scd {

inline constexpr std::string_view kLocalMode = "local";  // native prefill, nothing is transferred
inline constexpr std::string_view kScdMode = "scd";      // semantic codes: Reuse and Patch
inline constexpr std::string_view kFusedMode = "fused";  // one code for K and V of a group of layers
inline constexpr std::string_view kAutoMode = "auto";    // no mode of its own: ResolveMode

// Whether it is a mode itself, which auto is not.
bool IsModeName(std::string_view name);
// What may be asked for: auto, and the modes.
std::vector<std::string> ModeChoices();
bool IsModeChoice(std::string_view name);
// "expected one of auto, scd, reuse, local, ...".
std::string ModeNamesText();

// The mode that `mode` stands for. auto is fused where the bundle has such translators, unless `plan` asks
// for what only scd has (ranks, Patch layers), and else scd; every other mode is itself.
std::string_view ResolveMode(std::string_view mode, bool has_fused, const PlanRequest& plan);

// What a mode that transfers asks of a bundle where the operator asks for `server`: ranks, Patch layers,
// codec and distortion of `server` count for codes, its recomputed layers for selective, its native ranges
// for every mode. Quantised modes are int4 unless a request says int8.
PlanRequest PlanRequestFor(std::string_view mode, const PlanRequest& server);

// What `over` asks for, over `base`; the form stays. The distortion of `base` counts only for the codec that
// has one.
void Overlay(const PlanRequest& over, PlanRequest* base);

// Whether a request makes sense for its mode: INVALID_ARGUMENT naming the field ("plan.codec: ...").
absl::Status CheckModeRequest(std::string_view mode, const PlanRequest& request);

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_TRANSFER_MODES_H_
