#include "eval/daemon_models.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/yaml_document.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// The text at a.b.c; empty where it is absent.
std::string TextAt(const YamlDocument& document, std::initializer_list<std::string_view> keys) {
  const YamlNode* node = &document.root();
  for (const std::string_view key : keys) {
    node = node->Find(key);
    if (node == nullptr) return "";
  }
  return node->kind == YamlNode::Kind::kScalar ? node->scalar : "";
}

absl::StatusOr<ModelSource> ModelOf(const YamlDocument& document, const std::string& file) {
  ModelSource source{.path = TextAt(document, {"model", "path"}),
                     .adapter = TextAt(document, {"model", "adapter"}),
                     .config = TextAt(document, {"model", "config"})};
  if (source.path.empty()) return absl::InvalidArgumentError(absl::StrCat(file, ": model.path: is missing"));
  return source;
}

BackendOptions BackendOf(const YamlDocument& document) {
  BackendOptions options;
  if (const std::string device = TextAt(document, {"device"}); !device.empty()) options.device = device;
  int threads = 0;
  if (absl::SimpleAtoi(TextAt(document, {"threads"}), &threads)) options.num_threads = threads;
  const std::string math = TextAt(document, {"math"});
  if (math == "f32") options.math = MathMode::kF32;
  if (math == "bf16") options.math = MathMode::kBF16;
  return options;
}

}  // namespace

absl::StatusOr<DaemonModels> ReadDaemonModels(const DaemonsConfig& config) {
  SCD_ASSIGN_OR_RETURN(const YamlDocument producer,
                       YamlDocument::Load(config.producer_config, config.producer_set));
  SCD_ASSIGN_OR_RETURN(const YamlDocument consumer,
                       YamlDocument::Load(config.consumer_config, config.consumer_set));
  DaemonModels models;
  SCD_ASSIGN_OR_RETURN(models.producer, ModelOf(producer, config.producer_config));
  SCD_ASSIGN_OR_RETURN(models.consumer, ModelOf(consumer, config.consumer_config));
  models.bundle = config.bundle.empty() ? TextAt(consumer, {"bundle"}) : config.bundle;
  models.backend = BackendOf(consumer);
  return models;
}

}  // namespace scd
