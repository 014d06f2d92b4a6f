#include "calibrate/pair_manifest.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibrate/trace_stage.h"
#include "common/server/command_line.h"

namespace scd {
namespace {

BundleModel SideOf(const Model& model) {
  return {.description = model.description,
          .digest = model.digest,
          .tokenizer_digest = model.tokenizer->digest()};
}

void AddFitted(const CalibrateConfig& config, const FittedPair& fitted, BundleManifest& m) {
  m.default_rank_k = config.ranks.k;
  m.max_rank_k = config.ranks.max_k;
  m.default_rank_v = config.ranks.v;
  m.max_rank_v = config.ranks.max_v;
  if (!fitted.patch.empty()) {
    m.default_rank_h = config.ranks.default_h;
    m.ranks_h = config.ranks.h;
    m.candidate_layers = fitted.candidates;
    m.mlp_width = config.aligner.mlp_width;
  }
  if (!fitted.fused.empty()) {
    m.fused = {.rank = fitted.fused.front().linear.translator.rank, .group = config.fused.group};
  }
  for (const FittedRate& rate : fitted.rates) m.rate_points.push_back(rate.point);
  m.default_rate_point = fitted.default_rate;
  m.default_patch_layers = fitted.choice.layers;
  m.patch_choice = fitted.choice.steps;
  m.selective = fitted.selective;
  m.quality = fitted.quality;
}

void AddErrors(const FittedPair& fitted, BundleManifest& m) {
  for (const LayerReuse& layer : fitted.reuse) {
    m.layer_errors.push_back({.k = layer.error_k, .v = layer.error_v});
  }
  for (const LayerPatch& layer : fitted.patch) {
    for (const AlignerNetwork& network : layer.ranks) {
      if (network.in == m.default_rank_h) {
        m.layer_errors[static_cast<std::size_t>(layer.layer)].h = network.error;
      }
    }
  }
  for (const FusedGroup& group : fitted.fused) {
    for (std::size_t i = 0; i < group.each.size(); ++i) {
      m.layer_errors[static_cast<std::size_t>(group.layers.first) + i].kv = group.each[i].plain_error;
    }
  }
}

CalibrationRecord RecordOf(const CalibrateConfig& config, const Corpus& corpus) {
  CalibrationRecord record;
  const auto& prefixes = corpus.prefixes();
  record.corpus = corpus.description();
  record.num_prefixes = static_cast<std::int64_t>(prefixes.size());
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    record.num_tokens += static_cast<std::int64_t>(prefixes[i].size());
    const bool held_out =
        IsHeldOut(static_cast<std::int64_t>(i), record.num_prefixes, config.corpus.hold_out_every);
    record.num_held_out_prefixes += held_out ? 1 : 0;
  }
  record.ridge_lambda = config.ridge_lambda;
  record.native_head = config.native_head;
  return record;
}

}  // namespace

BundleManifest MakeManifest(const CalibrateConfig& config, const ModelPair& pair, const Corpus& corpus,
                            const FittedPair& fitted) {
  const ModelConfig& model = pair.consumer.config;
  BundleManifest m;
  m.created_by = absl::StrCat("scd-calibrate ", kScdVersion);
  m.producer = SideOf(pair.producer);
  m.consumer = SideOf(pair.consumer);
  m.architecture = std::string(ArchitectureName(model.architecture));
  m.num_layers = model.num_layers;
  m.hidden_size = model.hidden_size;
  m.num_kv_heads = model.num_kv_heads;
  m.head_dim = model.head_dim;
  m.native_head = config.native_head;
  m.native_tail = config.native_tail;
  m.untranslatable_ids = pair.untranslatable_ids;
  AddFitted(config, fitted, m);
  AddErrors(fitted, m);
  m.calibration = RecordOf(config, corpus);
  return m;
}

}  // namespace scd
