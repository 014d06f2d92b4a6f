#include "calibrate/config.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bundle/manifest.h"
#include "common/config/cuda_yaml.h"
#include "common/config/entropy_tables.h"
#include "common/config/plan_yaml.h"
#include "common/model/model_yaml.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr IntRange kRank = {.min = 1, .max = 65536, .unit = "columns"};
constexpr IntRange kRankOrAll = {.min = 0, .max = 65536, .unit = "columns"};
constexpr IntRange kLayer = {.min = 0, .max = 1023, .unit = "layer"};
constexpr IntRange kTokens = {.min = 1, .max = 1 << 20, .unit = "tokens"};
constexpr IntRange kNative = {.min = 0, .max = 65536, .unit = "tokens"};
constexpr IntRange kPrefixes = {.min = 1, .max = 1 << 20, .unit = "prefixes"};
constexpr IntRange kPrefixesOrAll = {.min = 0, .max = 1 << 20, .unit = "prefixes"};
constexpr char kDefaultSeeds[] = "configs/seed_prompts.txt";

void ReadSelfSample(YamlSection item, CorpusSource* source) {
  source->kind = CorpusSourceKind::kSelfSample;
  source->path = kDefaultSeeds;
  source->limit = 100;
  std::int64_t seed = 1;
  YamlSection section = item.Section("self_sample");
  section.String("seeds", &source->path);
  section.Int("num_prefixes", &source->limit, kPrefixes);
  section.Int("tokens", &source->num_tokens, kTokens);
  section.Real("min_temperature", &source->min_temperature, {.min = 0.05, .max = 10.0});
  section.Real("max_temperature", &source->max_temperature, {.min = 0.05, .max = 10.0});
  section.Int("seed", &seed, {.min = 0});
  source->seed = static_cast<std::uint64_t>(seed);
  if (source->max_temperature < source->min_temperature) {
    section.Fail("max_temperature", "is under min_temperature");
  }
}

void ReadFileSource(YamlSection item, CorpusSourceKind kind, std::string_view key, CorpusSource* source) {
  source->kind = kind;
  item.RequiredString(key, &source->path);
  item.Int("limit", &source->limit, kPrefixesOrAll);
  item.Bool("special_tokens", &source->special_tokens);
}

void ReadCorpus(YamlSection root, CorpusConfig* config) {
  YamlSection corpus = root.Section("corpus");
  for (YamlSection item : corpus.Sections("sources", {.min = 1, .max = 256})) {
    CorpusSource source;
    const int kinds = int{item.Has("jsonl")} + int{item.Has("text")} + int{item.Has("self_sample")};
    if (item.Has("text") && kinds == 1) {
      ReadFileSource(item, CorpusSourceKind::kText, "text", &source);
    } else if (item.Has("self_sample") && kinds == 1) {
      ReadSelfSample(item, &source);
    } else {
      ReadFileSource(item, CorpusSourceKind::kJsonl, "jsonl", &source);
      if (kinds > 1) item.Fail("jsonl", "a source is one of jsonl, text and self_sample");
    }
    config->sources.push_back(std::move(source));
  }
  if (!corpus.Has("sources")) {
    config->sources.push_back({.kind = CorpusSourceKind::kSelfSample, .path = kDefaultSeeds, .limit = 100});
  }
  corpus.Int("max_prefixes", &config->max_prefixes, kPrefixes);
  corpus.Int("max_prefix_tokens", &config->max_prefix_tokens, kTokens);
  corpus.Int("hold_out_every", &config->hold_out_every, {.min = 2, .max = 1000, .unit = "prefixes"});
}

void ReadRanks(YamlSection root, RankConfig* ranks) {
  YamlSection section = root.Section("ranks");
  section.Int("k", &ranks->k, kRank);
  section.Int("v", &ranks->v, kRank);
  section.Ints("h", &ranks->h, kRank, {.min = 1, .max = 16});
  section.Int("default_h", &ranks->default_h, kRankOrAll);
  section.Int("max_k", &ranks->max_k, kRankOrAll);
  section.Int("max_v", &ranks->max_v, kRankOrAll);
  std::sort(ranks->h.begin(), ranks->h.end());
  if (std::adjacent_find(ranks->h.begin(), ranks->h.end()) != ranks->h.end())
    section.Fail("h", "a rank stands twice");
  const auto known = [ranks](std::int64_t rank) {
    return std::find(ranks->h.begin(), ranks->h.end(), rank) != ranks->h.end();
  };
  if (ranks->default_h != 0 && !known(ranks->default_h)) section.Fail("default_h", "is none of ranks.h");
  if (ranks->max_k != 0 && ranks->max_k < ranks->k) section.Fail("max_k", "is under ranks.k");
  if (ranks->max_v != 0 && ranks->max_v < ranks->v) section.Fail("max_v", "is under ranks.v");
}

void ReadPatch(YamlSection root, PatchConfig* patch) {
  constexpr ListSize kLayers = {.min = 0, .max = 1024};
  YamlSection section = root.Section("patch");
  section.IntsOrWord("layers", "auto", &patch->layers, kLayer, kLayers);
  if (section.IsWord("count", "auto")) {
    patch->count.reset();
  } else {
    section.Int("count", &patch->count, {.min = 0, .max = 1024, .unit = "layers"});
  }
  if (section.IsWord("candidates", "all")) {
    patch->num_candidates = 0;
  } else {
    section.IntsOrWord("candidates", "auto", &patch->candidates, kLayer, kLayers);
    section.Int("num_candidates", &patch->num_candidates, {.min = 1, .max = 1024, .unit = "layers"});
  }
  YamlSection cost = section.Section("cost");
  cost.Real("reuse", &patch->reuse_cost, {.min = 1e-9, .max = 1e9});
  cost.Real("per_layer", &patch->layer_cost, {.min = 1e-9, .max = 1e9});

  const auto twice = [](const std::vector<std::int64_t>& layers) {
    return std::set<std::int64_t>(layers.begin(), layers.end()).size() != layers.size();
  };
  if (patch->layers && twice(*patch->layers)) section.Fail("layers", "a layer stands twice");
  if (!patch->candidates) return;
  if (twice(*patch->candidates)) section.Fail("candidates", "a layer stands twice");
  for (const std::int64_t layer : patch->layers.value_or(std::vector<std::int64_t>())) {
    if (std::find(patch->candidates->begin(), patch->candidates->end(), layer) == patch->candidates->end()) {
      section.Fail("layers", absl::StrCat("layer ", layer, " is none of patch.candidates"));
    }
  }
}

void ReadSelective(YamlSection root, SelectiveConfig* selective) {
  YamlSection section = root.Section("selective");
  section.Bool("profile", &selective->profile);
  section.Int("prefixes", &selective->prefixes, kPrefixes);
  section.IntsOrWord("sizes", "auto", &selective->sizes, {.min = 1, .max = 1024, .unit = "layers"},
                     {.min = 1, .max = 64});
  section.Real("share", &selective->share, {.min = 0.0, .max = 1.0});
  if (selective->sizes) {
    std::vector<std::int64_t>& sizes = *selective->sizes;
    std::sort(sizes.begin(), sizes.end());
    if (std::adjacent_find(sizes.begin(), sizes.end()) != sizes.end())
      section.Fail("sizes", "a size stands twice");
  }
  ReadLayerRange(section, "default", &selective->default_group);
}

void ReadAligner(YamlSection section, AlignerTraining* aligner) {
  std::int64_t seed = 1;
  section.Int("mlp_width", &aligner->mlp_width, {.min = 1, .max = 1 << 18, .unit = "units"});
  section.Int("max_epochs", &aligner->max_epochs, {.min = 0, .max = 10000, .unit = "epochs"});
  section.Int("batch_rows", &aligner->batch_rows, {.min = 1, .max = 1 << 16, .unit = "rows"});
  section.Real("learning_rate", &aligner->learning_rate, {.min = 1e-9, .max = 1.0});
  section.Real("weight_decay", &aligner->weight_decay, {.min = 0.0, .max = 10.0});
  section.Int("patience", &aligner->patience, {.min = 1, .max = 10000, .unit = "epochs"});
  section.Int("seed", &seed, {.min = 0});
  aligner->seed = static_cast<std::uint64_t>(seed);
}

void ReadFused(YamlSection root, FusedConfig* fused) {
  YamlSection section = root.Section("fused");
  if (!section.IsWord("rank", "auto")) section.Int("rank", &fused->rank, kRankOrAll);
  fused->cut_unsent = !fused->rank;
  section.Int("group", &fused->group, {.min = 1, .max = kMaxBundleLayers, .unit = "layers"});
}

void ReadEntropy(YamlSection root, EntropyConfig* entropy) {
  constexpr RealRange kDistortion = {.min = kLeastDistortion, .max = kMostDistortion};
  YamlSection section = root.Section("entropy");
  std::vector<double>& distortions = entropy->distortions;
  section.Reals("distortions", &distortions, kDistortion, {.min = 0, .max = kMaxRatePoints - 1});
  section.Real("default", &entropy->default_distortion, kDistortion);
  section.Real("target_kl", &entropy->target.kl, {.min = 1e-9, .max = 1e3, .unit = "nats"});
  section.Real("target_bytes", &entropy->target.bytes_per_token,
               {.min = 1, .max = 1e9, .unit = "bytes a token"});
  std::sort(distortions.begin(), distortions.end());
  if (std::adjacent_find(distortions.begin(), distortions.end()) != distortions.end()) {
    section.Fail("distortions", "a distortion stands twice");
  }
  if (entropy->target.kl && entropy->target.bytes_per_token) {
    section.Fail("target_bytes", "given beside target_kl; a target is one of the two");
  }
  if (distortions.empty()) {
    if (entropy->target.given())
      section.Fail("distortions", "is empty, but a target needs one to begin with");
    return;
  }
  if (std::find(distortions.begin(), distortions.end(), entropy->default_distortion) == distortions.end()) {
    section.Fail(
        section.Has("default") ? "default" : "distortions",
        absl::StrCat("the default, ", entropy->default_distortion, ", is none of entropy.distortions"));
  }
}

absl::Status CheckLayers(std::string_view field, const std::optional<std::vector<std::int64_t>>& layers,
                         std::int64_t num_layers) {
  for (const std::int64_t layer : layers.value_or(std::vector<std::int64_t>())) {
    if (layer < num_layers) continue;
    return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": layer ", layer,
                                                   ": the models have layers 0 to ", num_layers - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckRank(std::string_view field, std::int64_t rank, std::int64_t largest) {
  if (rank <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), ": ", rank, " is over these models' width, ", largest));
}

}  // namespace

void ReadCalibrateConfig(YamlSection root, CalibrateConfig* config) {
  root.RequiredString("output", &config->output);
  root.RequiredString("work_dir", &config->work_dir);
  root.Bool("keep_work", &config->keep_work);
  root.String("device", &config->backend.device);
  YamlSection cuda = root.Section("cuda");
  ReadCudaOptions(cuda, &config->backend.cuda);
  if (config->backend.cuda.memory_mib != 0) {
    cuda.Fail("memory_mib",
              "stages of a calibration need different memory, which is taken when it is needed: 0");
  }
  root.Int("threads", &config->backend.num_threads, {.min = 0, .max = 1024, .unit = "threads"});
  root.Choice("math", &config->backend.math,
              {{"auto", MathMode::kAuto}, {"f32", MathMode::kF32}, {"bf16", MathMode::kBF16}});
  ReadModelSource(root, "producer", &config->producer, nullptr);
  ReadModelSource(root, "consumer", &config->consumer, nullptr);
  ReadCorpus(root, &config->corpus);
  ReadRanks(root, &config->ranks);
  root.Real("ridge_lambda", &config->ridge_lambda, {.min = 0.0, .max = 1e6});
  root.Int("native_head", &config->native_head, kNative);
  root.Int("native_tail", &config->native_tail, kNative);
  ReadPatch(root, &config->patch);
  ReadSelective(root, &config->selective);
  ReadAligner(root.Section("aligner"), &config->aligner);
  root.Section("reuse").Choice("fit", &config->reuse_fit,
                               {{"joint", ReuseFit::kJoint}, {"rrr", ReuseFit::kReducedRank}});
  ReadFused(root, &config->fused);
  ReadEntropy(root, &config->entropy);

  YamlSection measure = root.Section("measure");
  measure.Int("sweep_prefixes", &config->measure.sweep_prefixes, kPrefixes);
  measure.Int("quality_prefixes", &config->measure.quality_prefixes, kPrefixes);
  measure.Int("scored_tokens", &config->measure.scored_tokens, kTokens);

  YamlSection trace = root.Section("trace");
  trace.Int("pass_tokens", &config->trace.pass_tokens, {.min = 1, .max = 1 << 16, .unit = "tokens"});
  trace.Int("checkpoint_prefixes", &config->trace.checkpoint_prefixes, kPrefixes);
  trace.Choice("scratch_dtype", &config->trace.scratch_dtype, {{"f16", DType::kF16}, {"f32", DType::kF32}});
}

absl::Status ResolveForModel(const ModelConfig& model, CalibrateConfig* config) {
  RankConfig& ranks = config->ranks;
  const std::int64_t d_kv = model.d_kv();
  SCD_RETURN_IF_ERROR(CheckRank("ranks.k", ranks.k, d_kv));
  SCD_RETURN_IF_ERROR(CheckRank("ranks.v", ranks.v, d_kv));
  SCD_RETURN_IF_ERROR(CheckRank("ranks.max_k", ranks.max_k, d_kv));
  SCD_RETURN_IF_ERROR(CheckRank("ranks.max_v", ranks.max_v, d_kv));
  SCD_RETURN_IF_ERROR(CheckRank("ranks.h", ranks.h.back(), model.hidden_size));
  if (ranks.max_k == 0) ranks.max_k = d_kv;
  if (ranks.max_v == 0) ranks.max_v = d_kv;
  if (ranks.default_h == 0) ranks.default_h = ranks.h.back();
  FusedConfig& fused = config->fused;
  fused.group = std::min(fused.group, model.num_layers);
  const std::int64_t fused_rank =
      std::min(fused.group * std::min(model.hidden_size, 2 * d_kv), kMaxEntropyRank);
  if (!fused.rank) fused.rank = fused_rank;
  SCD_RETURN_IF_ERROR(CheckRank("fused.rank", *fused.rank, fused_rank));
  SCD_RETURN_IF_ERROR(CheckLayers("patch.layers", config->patch.layers, model.num_layers));
  SCD_RETURN_IF_ERROR(CheckLayers("patch.candidates", config->patch.candidates, model.num_layers));
  const SelectiveConfig& selective = config->selective;
  if (selective.sizes && selective.sizes->back() > model.num_layers) {
    return absl::InvalidArgumentError(absl::StrCat("selective.sizes: ", selective.sizes->back(),
                                                   " layers: the models have ", model.num_layers));
  }
  if (!selective.default_group) return absl::OkStatus();
  return CheckLayers("selective.default", std::vector<std::int64_t>{selective.default_group->last},
                     model.num_layers);
}

}  // namespace scd
