// adapter_config.json of a PEFT LoRA adapter. Whatever would make the adapter compute something else than
// W + scale * B A (DoRA, trained biases, other kinds of adapters ...) is refused by name, and so is every
// field that is not known.
#ifndef SCD_COMMON_MODEL_PEFT_CONFIG_H_
#define SCD_COMMON_MODEL_PEFT_CONFIG_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model/name_pattern.h"

namespace scd {

// Modules by a list of names (the whole name or its last parts), by a regular expression, or every linear
// module but the output layer.
struct ModuleSelector {
  std::vector<std::string> names;
  std::optional<NamePattern> pattern;
  bool all_linear = false;

  // Whether names or pattern choose the module "model.layers.3.self_attn.q_proj".
  absl::StatusOr<bool> Matches(absl::string_view module) const;
};

struct PeftConfig {
  std::string path;
  std::int64_t rank = 0;
  double alpha = 0;
  bool rank_stabilised = false;  // scale is alpha / sqrt(rank) instead of alpha / rank
  std::vector<std::pair<NamePattern, std::int64_t>> rank_patterns;
  std::vector<std::pair<NamePattern, double>> alpha_patterns;
  ModuleSelector targets;
  ModuleSelector excluded;
  std::optional<std::set<std::int64_t>> layers;  // layers_to_transform; absent: all
  std::vector<std::string> modules_to_save;      // whole weights that replace the base's

  struct Lora {
    std::int64_t rank;
    double alpha;
    double scale;
  };
  // Rank, alpha and scale of one module. INVALID_ARGUMENT where several patterns with different values match
  // it (which of them holds depends on the order in a Python dictionary).
  absl::StatusOr<Lora> LoraOf(absl::string_view module) const;
};

absl::StatusOr<PeftConfig> LoadPeftConfig(const std::string& path);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_PEFT_CONFIG_H_
