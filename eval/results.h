// The results document ("scd.eval.v1"): what was measured, on which machine and pair, with which commands.
#ifndef SCD_EVAL_RESULTS_H_
#define SCD_EVAL_RESULTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/figures.h"
#include "eval/machine_info.h"
#include "eval/mode_row.h"
#include "eval/pair_description.h"
#include "nlohmann/json.hpp"

namespace scd {

inline constexpr char kResultsSchema[] = "scd.eval.v1";

struct DataDescription {
  std::string window_source;
  std::int64_t num_windows = 0;
  std::int64_t num_scored_tokens = 0;
  std::string question_source;
  std::int64_t num_questions = 0;
  std::int64_t max_tokens = 0;
};

// One row of the table. What was not measured, or does not apply, is absent.
struct ModeFigures {
  ModeRow row;
  std::string plan;            // in words
  std::string codec;           // empty for local
  double bytes_per_token = 0;  // serialized messages over all prompt tokens
  std::optional<double> code_bytes_per_transferred_token;
  std::optional<double> f1, exact;
  std::optional<double> ppl, kl, tv;
  std::optional<double> kl_answer;         // KL at the answer's first token
  std::optional<double> first_difference;  // median index of the first token that differs from local's answer
  std::optional<double> ttft_ms_cold, ttft_ms_codes_ready, ttft_ms_native;  // medians
};

struct LatencyFigures {
  std::string mode;
  std::string row;
  std::int64_t prefix_tokens = 0;
  std::optional<double> link_mbit_s;  // absent: loopback
  bool measured = true;               // false: bytes over bandwidth plus the times measured on loopback
  std::optional<double> ttft_ms_cold, ttft_ms_codes_ready, ttft_ms_native;
  double bytes = 0;
  std::optional<double> wire_ms;  // of computed rows: bytes over bandwidth
  StageTimes stages;              // of the cold request
};

struct AblationFigures {
  std::optional<std::int64_t> rank_k, rank_v, rank_h;
  std::vector<std::int64_t> patch_layers;
  std::optional<double> distortion;
  std::optional<std::int64_t> calibration_prefixes;
  double bytes_per_token = 0;
  std::optional<double> kl, ppl, tv, kl_answer, ttft_ms_codes_ready;
};

struct AblationResults {
  std::string name;
  std::vector<AblationFigures> rows;
};

struct Results {
  std::string created;  // "2026-11-30T10:00:00Z"
  std::vector<std::string> commands;
  MachineInfo machine;
  PairDescription pair;
  DataDescription data;
  std::vector<ModeFigures> modes;
  std::vector<std::int64_t> latency_prefix_tokens;
  std::vector<LatencyFigures> latency;
  std::vector<AblationResults> ablations;
  std::optional<nlohmann::json> drift;
  bool interrupted = false;  // not everything that was asked for is there
  std::string error;         // what ended the run; else empty
};

nlohmann::ordered_json ResultsJson(const Results& results);

// The document with a line break.
std::string ResultsText(const nlohmann::ordered_json& document);

}  // namespace scd

#endif  // SCD_EVAL_RESULTS_H_
