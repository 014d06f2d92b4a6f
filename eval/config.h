// What the operator of scd-eval can set (configs/eval.yaml explains each field).
#ifndef SCD_EVAL_CONFIG_H_
#define SCD_EVAL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/config/codec.h"
#include "common/config/yaml_reader.h"
#include "common/server/log.h"
#include "eval/child_daemons.h"
#include "eval/data_config.h"
#include "eval/mode_row.h"

namespace scd {

struct RequestConfig {
  std::int64_t connect_timeout_ms = 5000;
  std::int64_t request_timeout_ms = 300'000;
  std::int64_t transfer_timeout_ms = 240'000;
};

struct MeasureConfig {
  std::int64_t max_tokens = 12;            // of an answer
  std::vector<std::string> stop = {"\n"};  // texts that end an answer
  std::int64_t ready_questions = 20;  // questions whose TTFT with codes in the store is measured; 0: none
  std::vector<Codec> codecs;          // rows of fitted codes are repeated for each; empty: as they are
};

struct LatencyConfig {
  std::vector<std::int64_t> prefix_tokens = {128, 512, 1024, 2048};
  std::vector<std::string> rows;  // names of rows; empty: those of group
  std::string group = "equal";
  std::int64_t repeats = 3;
  std::vector<std::int64_t> links_mbit_s = {100, 1000, 10000};  // of computed rows
};

enum class Ablation : std::uint8_t { kRanks, kRankH, kPatchLayers, kDistortion, kCalibrationPrefixes };
// "ranks", "rank_h", "patch_layers", "distortion", "calibration_prefixes".
std::string_view AblationName(Ablation ablation);

struct AblateConfig {
  std::vector<Ablation> run = {Ablation::kRanks, Ablation::kRankH, Ablation::kPatchLayers,
                               Ablation::kDistortion};
  std::int64_t native_head = 1;
  std::int64_t native_tail = 16;
  std::int64_t windows = 4;  // of the data; 0: all of it
  std::int64_t questions = 10;
  std::int64_t ready_questions = 3;
  std::vector<std::int64_t> rank_k = {32, 64, 96, 128, 192};
  std::vector<std::int64_t> rank_v = {32, 64, 96, 128, 192};
  std::vector<std::int64_t> rank_h;   // empty: all that the bundle was fitted for
  std::int64_t max_patch_layers = 8;  // 0, 1, ... of the bundle's order
  std::vector<double> distortions;    // of the bundle's rate points; empty: all of them
  std::vector<std::int64_t> calibration_prefixes = {25, 60, 120, 240};
  std::string calibrate_config = "configs/calibrate.yaml";
  std::vector<std::string> calibrate_set;
  std::string calibrate_folder;  // where the bundles are fitted and stay; empty: a temporary one
};

struct DriftConfig {
  std::int64_t prefixes = 10;  // windows, at most
  std::int64_t decode_positions = 32;
};

struct ReportConfig {
  std::string python = "python3";
  std::string renderer = "tools/report/render.py";
};

struct EvalConfig {
  std::string consumer;  // host:port of a running pair's; empty: the daemons are started
  DaemonsConfig daemons;
  DataConfig data;
  MeasureConfig eval;
  RequestConfig requests;
  std::vector<ModeRow> rows = DefaultRows();
  LatencyConfig latency;
  AblateConfig ablate;
  DriftConfig drift;
  ReportConfig report;
  LogLevel log_level = LogLevel::kInfo;
};

// Errors stay in the reader.
void ReadEvalConfig(YamlSection root, EvalConfig* config);

// NOT_FOUND, INVALID_ARGUMENT naming file, line and field.
absl::StatusOr<EvalConfig> LoadEvalConfig(const std::string& path, absl::Span<const std::string> overrides);

}  // namespace scd

#endif  // SCD_EVAL_CONFIG_H_
