#include "tests/support/tiny_bundle.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/bundle/bundle_layout.h"
#include "common/bundle/bundle_writer.h"
#include "common/config/entropy_tables.h"
#include "kernels/dtype.h"
#include "kernels/status_macros.h"

namespace scd::testing {
namespace {

bool EndsWith(const std::string& name, std::string_view end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// Ones on the diagonal of encoders and decoders, zero everywhere else.
void FillIdentity(const std::string& name, BundleTensorValues::Tensor& tensor) {
  if (!EndsWith(name, ".encoder") && !EndsWith(name, ".decoder")) return;
  for (std::int64_t i = 0; i < std::min(tensor.shape[0], tensor.shape[1]); ++i) {
    tensor.values[static_cast<std::size_t>(i * tensor.shape[1] + i)] = 1.0f;
  }
}

void FillRandom(std::mt19937& random, BundleTensorValues::Tensor& tensor) {
  const auto width = static_cast<float>(tensor.shape[tensor.shape.rank() - 1]);
  std::normal_distribution<float> normal(0.0f, tensor.shape.rank() == 2 ? 1.0f / std::sqrt(width) : 0.1f);
  for (float& value : tensor.values) value = normal(random);
}

bool IsSent(bool identity, std::int64_t column) {
  return identity || column % 5 != 4;
}

// sqrt(12 D), D being that of the rate point in the name "layers.3.kv.rate.1.steps".
void FillSteps(const BundleManifest& manifest, bool identity, const std::string& name,
               BundleTensorValues::Tensor& tensor) {
  const auto end = name.rfind('.');
  const auto begin = name.rfind('.', end - 1) + 1;
  const std::size_t point = std::stoul(name.substr(begin, end - begin));
  const auto step = static_cast<float>(std::sqrt(12 * manifest.rate_points[point].distortion));
  for (std::size_t c = 0; c < tensor.values.size(); ++c) {
    tensor.values[c] = IsSent(identity, static_cast<std::int64_t>(c)) ? step : 0.0f;
  }
}

// The larger a value, the rarer.
void FillFrequencies(bool identity, BundleTensorValues::Tensor& tensor) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(kEntropySymbols), 1);
  for (std::int64_t q = -kLargestSymbolValue; q <= kLargestSymbolValue; ++q) {
    counts[static_cast<std::size_t>(q + kLargestSymbolValue)] = 4096 / (4 + std::abs(q));
  }
  const std::vector<std::int32_t> frequencies = FitFrequencies(counts);
  for (std::int64_t column = 0; column < tensor.shape[0]; ++column) {
    if (IsSent(identity, column)) {
      tensor.integers.insert(tensor.integers.end(), frequencies.begin(), frequencies.end());
    } else {
      tensor.integers.insert(tensor.integers.end(), frequencies.size(), 0);
    }
  }
  tensor.values.clear();
}

// Encoders of Fused layers <- the model's K and V products, decoders being the identity.
absl::Status FillFused(const std::string& model, const BundleManifest& manifest, BundleTensorValues& values) {
  SCD_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(model + "/model.safetensors"));
  for (std::int64_t layer = 0; layer < manifest.num_layers; ++layer) {
    std::vector<float> rows;
    for (const std::string part : {"k_proj", "v_proj"}) {
      SCD_ASSIGN_OR_RETURN(const ConstTensorView weight,
                           file->Get(absl::StrCat("model.layers.", layer, ".self_attn.", part, ".weight"),
                                     DType::kBF16, Shape{manifest.d_kv(), manifest.hidden_size}));
      for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
        rows.push_back(Bf16ToFloat(weight.as<std::uint16_t>()[i]));
      }
    }
    rows.resize(static_cast<std::size_t>(manifest.fused.rank * manifest.hidden_size));
    values.tensors().at(TranslatorTensorName(layer, CodeKind::kKV, "encoder")).values = std::move(rows);
  }
  return absl::OkStatus();
}

}  // namespace

BundleModel MadeUpModel(const std::string& name) {
  return {.description = name,
          .digest = DigestBuilder("test model").AddString(name).Finish(),
          .tokenizer_digest = DigestBuilder("test tokenizer").AddString(name).Finish()};
}

ModelConfig TinyConfig() {
  ModelConfig config;
  config.num_layers = 4;
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_heads = 8;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 1024;
  config.max_positions = 512;
  config.rms_norm_eps = 1e-6;
  config.rope.theta = 100000.0;
  config.tie_word_embeddings = true;
  return config;
}

BundleManifest TinyManifest(const ModelConfig& config, const BundleModel& producer,
                            const BundleModel& consumer, const TinyBundleOptions& options) {
  BundleManifest m;
  m.created_by = "tiny_bundle";
  m.producer = producer;
  m.consumer = consumer;
  m.architecture = std::string(ArchitectureName(config.architecture));
  m.num_layers = config.num_layers;
  m.hidden_size = config.hidden_size;
  m.num_kv_heads = config.num_kv_heads;
  m.head_dim = config.head_dim;
  const std::int64_t d_kv = config.d_kv();
  m.max_rank_k = options.identity ? d_kv : std::min(options.max_rank_k, d_kv);
  m.max_rank_v = options.identity ? d_kv : std::min(options.max_rank_v, d_kv);
  m.default_rank_k = options.identity ? d_kv : std::min(options.default_rank_k, m.max_rank_k);
  m.default_rank_v = options.identity ? d_kv : std::min(options.default_rank_v, m.max_rank_v);
  m.candidate_layers = options.candidate_layers;
  m.default_patch_layers = options.default_patch_layers;
  if (!m.candidate_layers.empty()) {
    m.ranks_h = options.identity ? std::vector<std::int64_t>{config.hidden_size} : options.ranks_h;
    m.default_rank_h = m.ranks_h.back();
    m.mlp_width = options.mlp_width;
  }
  m.fused = options.fused;
  m.fused.rank = options.fused_model.empty()
                     ? std::min(m.fused.rank, m.fused.group * std::min(2 * d_kv, m.hidden_size))
                     : 2 * d_kv;
  for (const double distortion : options.distortions) {
    const auto point = static_cast<double>(m.rate_points.size());
    m.rate_points.push_back({.distortion = distortion, .bytes_per_token = 100 - point, .kl = 0.01 + point});
  }
  m.native_head = options.native_head;
  m.native_tail = options.native_tail;
  m.untranslatable_ids = options.untranslatable_ids;
  m.layer_errors.assign(static_cast<std::size_t>(m.num_layers), LayerErrors{.k = 0.25, .v = 0.5, .h = 0});
  for (const std::int64_t layer : m.candidate_layers) {
    const auto step = static_cast<double>(m.patch_choice.size() + 1);
    m.layer_errors[static_cast<std::size_t>(layer)].h = 0.125;
    m.patch_choice.push_back({.layer = layer,
                              .kl = 0.03 - 0.001 * step,
                              .gain = 0.001 * step,
                              .gain_per_cost = 0.001 * step / (2 + step),
                              .gain_per_layer = 0.001});
  }
  if (options.default_recompute) {
    const std::int64_t end = m.num_layers - 1;
    const LayerRange group{std::min(options.default_recompute->first, end),
                           std::min(options.default_recompute->last, end)};
    m.selective.kl_raw = 0.05;
    m.selective.groups = {{.layers = group, .kl = 0.01, .bytes_fraction = 0.75}};
    if (group.first > 0) {
      m.selective.groups.push_back({.layers = {.first = 0, .last = 0}, .kl = 0.045, .bytes_fraction = 0.875});
    }
    m.selective.default_group = group;
  }
  m.calibration = {.corpus = "none: made up for tests",
                   .num_prefixes = 10,
                   .num_tokens = 1000,
                   .num_held_out_prefixes = 1,
                   .ridge_lambda = 1e-4,
                   .native_head = 1};
  m.quality = {.kl_reuse = 0.03, .kl_scd = 0.02, .ppl_native = 17, .ppl_reuse = 18, .ppl_scd = 17.5};
  m.tensors_digest = DigestBuilder("test tensors").Finish();
  return m;
}

BundleTensorValues::BundleTensorValues(const BundleManifest& manifest, bool identity, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (const BundleTensor& promised : BundleTensors(manifest)) {
    Tensor tensor{promised.shape,
                  std::vector<float>(static_cast<std::size_t>(promised.shape.num_elements()))};
    if (promised.dtype == DType::kI32) {
      FillFrequencies(identity, tensor);
    } else if (EndsWith(promised.name, ".steps")) {
      FillSteps(manifest, identity, promised.name, tensor);
    } else if (identity) {
      FillIdentity(promised.name, tensor);
    } else {
      FillRandom(random, tensor);
    }
    tensors_.emplace(promised.name, std::move(tensor));
  }
}

std::vector<NamedTensor> BundleTensorValues::Named() const {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors_) {
    named.push_back({name, tensor.integers.empty()
                               ? ConstTensorView(tensor.values.data(), DType::kF32, tensor.shape)
                               : ConstTensorView(tensor.integers.data(), DType::kI32, tensor.shape)});
  }
  return named;
}

absl::StatusOr<Digest> WriteTinyBundle(const std::string& folder, const ModelConfig& config,
                                       const BundleModel& producer, const BundleModel& consumer,
                                       const TinyBundleOptions& options) {
  const BundleManifest manifest = TinyManifest(config, producer, consumer, options);
  BundleTensorValues values(manifest, options.identity, options.seed);
  if (!options.fused_model.empty()) {
    SCD_RETURN_IF_ERROR(FillFused(options.fused_model, manifest, values));
  }
  return WriteBundle(folder, manifest, values.Named());
}

}  // namespace scd::testing
