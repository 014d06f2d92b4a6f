// What the operator of scd-calibrate can set (configs/calibrate.yaml explains each field).
#ifndef SCD_CALIBRATE_CONFIG_H_
#define SCD_CALIBRATE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibrate/aligner_trainer.h"
#include "calibrate/rate_search.h"
#include "calibrate/reuse_stage.h"
#include "common/config/layer_plan.h"
#include "common/config/model_config.h"
#include "common/config/yaml_reader.h"
#include "common/model/model_source.h"
#include "kernels/backend_factory.h"

namespace scd {

enum class CorpusSourceKind : std::uint8_t { kJsonl, kText, kSelfSample };

struct CorpusSource {
  CorpusSourceKind kind = CorpusSourceKind::kSelfSample;
  std::string path;        // the file; of kSelfSample the seed prompts
  std::int64_t limit = 0;  // prefixes taken from it, the first ones; 0: all. Of kSelfSample: how many to make
  bool special_tokens = false;  // text that spells a special token becomes it
  // kSelfSample:
  std::int64_t num_tokens = 160;  // length of a prefix whose seed prompt does not say it
  double min_temperature = 0.8;
  double max_temperature = 1.0;
  std::uint64_t seed = 1;
};

struct CorpusConfig {
  std::vector<CorpusSource> sources;
  std::int64_t max_prefixes = 500;
  std::int64_t max_prefix_tokens = 512;
  std::int64_t hold_out_every = 10;  // every n-th prefix takes part in no fit
};

struct RankConfig {
  std::int64_t k = 96;
  std::int64_t v = 128;
  std::vector<std::int64_t> h = {576};  // aligners are fitted for each
  std::int64_t default_h = 0;           // 0: the largest of h
  std::int64_t max_k = 0;               // fitted and stored, at least k; 0: d_kv
  std::int64_t max_v = 0;
};

struct FusedConfig {
  std::optional<std::int64_t> rank =
      std::nullopt;        // of a group's code; 0: none are fitted; absent: all columns
  bool cut_unsent = true;  // of those, leave out what is sent at no distortion; where `rank` was absent
  std::int64_t group = 5;  // layers that share a code
};

struct EntropyConfig {
  std::vector<double> distortions = {0.01, 0.02, 0.04, 0.08, 0.16};  // ascending; empty: no tables
  double default_distortion = 0.04;  // one of them; of the plan, and what errors of Fused codes are logged at
  RateTarget target;
};

struct PatchConfig {
  std::optional<std::vector<std::int64_t>> layers;  // absent: chosen by measurement
  std::optional<std::int64_t> count = 6;  // of chosen layers; absent: where gain over cost is largest
  std::optional<std::vector<std::int64_t>> candidates;  // absent: the most sensitive layers
  std::int64_t num_candidates = 12;                     // how many; 0: every layer
  double reuse_cost = 1.0;                              // c0
  double layer_cost = 0.04;                             // c
};

struct SelectiveConfig {
  bool profile = true;
  std::int64_t prefixes = 3;  // held-out prefixes that groups are compared on
  // Of groups, in layers, ascending; absent: parts of the model's.
  std::optional<std::vector<std::int64_t>> sizes = std::nullopt;
  std::optional<LayerRange> default_group = std::nullopt;  // absent: chosen from the profile
  double share = 0.75;  // of the best group's gain that the chosen one has at least
};

struct MeasureConfig {
  std::int64_t sweep_prefixes = 5;     // held-out prefixes that layers are compared on
  std::int64_t quality_prefixes = 16;  // held-out prefixes of the final measurement
  std::int64_t scored_tokens = 32;     // last tokens of each that are scored
};

struct TraceConfig {
  std::int64_t pass_tokens = 512;         // rows of one forward pass
  std::int64_t checkpoint_prefixes = 10;  // prefixes after which the state is kept on disk
  DType scratch_dtype = DType::kF16;      // of hidden rows in the scratch file: kF16 or kF32
};

struct CalibrateConfig {
  ModelSource producer;
  ModelSource consumer;
  std::string output;
  std::string work_dir;
  bool keep_work = false;
  BackendOptions backend;
  CorpusConfig corpus;
  RankConfig ranks;
  double ridge_lambda = 1e-4;
  std::int64_t native_head = 1;
  std::int64_t native_tail = 16;
  ReuseFit reuse_fit = ReuseFit::kJoint;
  PatchConfig patch;
  SelectiveConfig selective;
  AlignerTraining aligner;
  FusedConfig fused;
  EntropyConfig entropy;
  MeasureConfig measure;
  TraceConfig trace;
};

// Errors stay in the reader.
void ReadCalibrateConfig(YamlSection root, CalibrateConfig* config);

// Checks what only the models can tell and fills what was left to them (max_k, max_v, default_h,
// fused.rank). `model`:
// either of the pair, which agree in what is looked at. INVALID_ARGUMENT naming the field.
absl::Status ResolveForModel(const ModelConfig& model, CalibrateConfig* config);

}  // namespace scd

#endif  // SCD_CALIBRATE_CONFIG_H_
