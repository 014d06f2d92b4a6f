#include "eval/config.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/plan_yaml.h"
#include "common/config/yaml_document.h"
#include "common/server/daemon_config.h"
#include "eval/rows_config.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr IntRange kMs = {.min = 1, .max = 86'400'000, .unit = "ms"};
constexpr IntRange kSeconds = {.min = 1, .max = 86'400, .unit = "seconds"};
constexpr IntRange kItems = {.min = 0, .max = 1 << 20};
constexpr IntRange kRank = {.min = 1, .max = 65536, .unit = "columns"};
constexpr ListSize kFewOrNone = {.min = 0, .max = 64};
constexpr ListSize kFew = {.min = 1, .max = 64};

void ReadDaemons(YamlSection section, DaemonsConfig* config) {
  section.String("programs", &config->programs);
  section.String("producer_config", &config->producer_config);
  section.String("consumer_config", &config->consumer_config);
  section.Strings("producer_set", &config->producer_set);
  section.Strings("consumer_set", &config->consumer_set);
  section.String("bundle", &config->bundle);
  section.Int("start_timeout_s", &config->start_timeout_s, kSeconds);
  section.Int("stop_timeout_s", &config->stop_timeout_s, kSeconds);
}

void ReadMeasure(YamlSection section, MeasureConfig* config) {
  section.Int("max_tokens", &config->max_tokens, {.min = 1, .max = 4096, .unit = "tokens"});
  section.Strings("stop", &config->stop, kFewOrNone);
  section.Int("ready_questions", &config->ready_questions, kItems);
  ReadCodecs(section, "codecs", &config->codecs);
}

void ReadRequests(YamlSection section, RequestConfig* config) {
  section.Int("connect_timeout_ms", &config->connect_timeout_ms, kMs);
  section.Int("request_timeout_ms", &config->request_timeout_ms, kMs);
  section.Int("transfer_timeout_ms", &config->transfer_timeout_ms, kMs);
}

void ReadLatency(YamlSection section, LatencyConfig* config) {
  section.Ints("prefix_tokens", &config->prefix_tokens, {.min = 2, .max = 1 << 20, .unit = "tokens"}, kFew);
  section.Strings("rows", &config->rows, kFewOrNone);
  section.String("group", &config->group);
  section.Int("repeats", &config->repeats, {.min = 1, .max = 1000});
  section.Ints("links_mbit_s", &config->links_mbit_s, {.min = 1, .max = 1'000'000, .unit = "Mbit/s"},
               kFewOrNone);
}

constexpr std::pair<std::string_view, Ablation> kAblations[] = {
    {"ranks", Ablation::kRanks},
    {"rank_h", Ablation::kRankH},
    {"patch_layers", Ablation::kPatchLayers},
    {"distortion", Ablation::kDistortion},
    {"calibration_prefixes", Ablation::kCalibrationPrefixes}};

void ReadAblations(YamlSection& section, std::vector<Ablation>* run) {
  if (!section.Has("run")) return;
  std::vector<std::string> names;
  section.Strings("run", &names, kFewOrNone);
  run->clear();
  for (const std::string& name : names) {
    bool known = false;
    for (const auto& [word, ablation] : kAblations) {
      if (name != word) continue;
      known = true;
      run->push_back(ablation);
    }
    if (!known) {
      section.Fail("run", absl::StrCat("\"", name,
                                       "\" is none of ranks, rank_h, patch_layers, distortion, "
                                       "calibration_prefixes"));
    }
  }
}

void ReadAblate(YamlSection section, AblateConfig* config) {
  constexpr IntRange kNative = {.min = 0, .max = 65536, .unit = "tokens"};
  ReadAblations(section, &config->run);
  section.Int("native_head", &config->native_head, kNative);
  section.Int("native_tail", &config->native_tail, kNative);
  section.Int("windows", &config->windows, kItems);
  section.Int("questions", &config->questions, kItems);
  section.Int("ready_questions", &config->ready_questions, kItems);
  section.Ints("rank_k", &config->rank_k, kRank, kFew);
  section.Ints("rank_v", &config->rank_v, kRank, kFew);
  section.Ints("rank_h", &config->rank_h, kRank, kFewOrNone);
  section.Int("max_patch_layers", &config->max_patch_layers, {.min = 0, .max = 1024, .unit = "layers"});
  section.Reals("distortions", &config->distortions, {.min = 0, .max = 1e6}, kFewOrNone);
  section.Ints("calibration_prefixes", &config->calibration_prefixes,
               {.min = 1, .max = 1 << 20, .unit = "prefixes"}, kFew);
  section.String("calibrate_config", &config->calibrate_config);
  section.Strings("calibrate_set", &config->calibrate_set);
  section.String("calibrate_folder", &config->calibrate_folder);
}

}  // namespace

std::string_view AblationName(Ablation ablation) {
  for (const auto& [word, known] : kAblations) {
    if (known == ablation) return word;
  }
  return "";
}

void ReadEvalConfig(YamlSection root, EvalConfig* config) {
  root.String("consumer", &config->consumer);
  ReadDaemons(root.Section("daemons"), &config->daemons);
  ReadDataConfig(root.Section("data"), &config->data);
  ReadMeasure(root.Section("eval"), &config->eval);
  ReadRequests(root.Section("requests"), &config->requests);
  ReadRows(root, &config->rows);
  ReadLatency(root.Section("latency"), &config->latency);
  ReadAblate(root.Section("ablate"), &config->ablate);

  YamlSection drift = root.Section("drift");
  drift.Int("prefixes", &config->drift.prefixes, {.min = 2, .max = 1 << 20, .unit = "prefixes"});
  drift.Int("decode_positions", &config->drift.decode_positions,
            {.min = 1, .max = 1 << 16, .unit = "tokens"});

  YamlSection report = root.Section("report");
  report.String("python", &config->report.python);
  report.String("renderer", &config->report.renderer);

  ReadLogLevel(root, &config->log_level);
  if (!config->consumer.empty() && !config->daemons.bundle.empty()) {
    root.Section("daemons").Fail("bundle", "is for daemons that are started; consumer names a running pair");
  }
}

absl::StatusOr<EvalConfig> LoadEvalConfig(const std::string& path, absl::Span<const std::string> overrides) {
  SCD_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::Load(path, overrides));
  YamlReader reader(document);
  EvalConfig config;
  ReadEvalConfig(reader.root(), &config);
  SCD_RETURN_IF_ERROR(reader.Finish());
  return config;
}

}  // namespace scd
