#include "bench/gpu/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

// Mistral-7B. Ranks make the payloads that the paper has for its 7B pair, 60 % of raw bf16 K and V with Reuse
// alone and 76 % with six Patch layers; codes of Fused layers are about a tenth of raw when they are entropy
// coded.
BenchmarkShape Shape7B() {
  BenchmarkShape s;
  ModelConfig& m = s.model;
  m.num_layers = 32;
  m.hidden_size = 4096;
  m.intermediate_size = 14336;
  m.num_heads = 32;
  m.num_kv_heads = 8;
  m.head_dim = 128;
  m.vocab_size = 32000;
  m.max_positions = 32768;
  s.bundle.max_rank_k = s.bundle.default_rank_k = 512;
  s.bundle.max_rank_v = s.bundle.default_rank_v = 704;
  s.bundle.ranks_h = {3072};
  s.bundle.candidate_layers = s.bundle.default_patch_layers = {10, 12, 14, 16, 18, 20};
  s.bundle.mlp_width = 1024;
  s.bundle.fused = {};
  s.bundle.fused.rank = 1024;
  s.bundle.distortions = {0.02};
  s.bundle.native_tail = 16;
  s.tokens = {512, 2048, 4096, 16384};
  s.batches = {1, 8, 32};
  s.context = 1024;
  s.steps = 32;
  s.chunk = 2048;
  s.product_rows = s.product_depth = 8192;
  s.product_columns = 16384;
  s.copy_bytes = std::int64_t{2} << 30;
  return s;
}

BenchmarkShape TinyShape() {
  BenchmarkShape s;
  ModelConfig& m = s.model;
  m.num_layers = 3;
  m.hidden_size = 64;
  m.intermediate_size = 96;
  m.num_heads = 4;
  m.num_kv_heads = 2;
  m.head_dim = 16;
  m.vocab_size = 128;
  m.max_positions = 512;
  s.bundle.max_rank_k = s.bundle.default_rank_k = 16;
  s.bundle.max_rank_v = s.bundle.default_rank_v = 22;
  s.bundle.ranks_h = {48};
  s.bundle.candidate_layers = s.bundle.default_patch_layers = {1};
  s.bundle.mlp_width = 16;
  s.bundle.fused = {};
  s.bundle.fused.rank = 32;
  s.bundle.distortions = {0.02};
  s.bundle.native_tail = 4;
  s.tokens = {24, 48};
  s.batches = {1, 3};
  s.context = 20;
  s.steps = 2;
  s.chunk = 16;
  s.product_rows = s.product_depth = s.product_columns = 64;
  s.copy_bytes = 1 << 16;
  return s;
}

}  // namespace

absl::StatusOr<BenchmarkShape> MakeShape(const GpuBenchmarkOptions& options) {
  if (options.shape != "7b" && options.shape != "tiny") {
    return absl::InvalidArgumentError(
        absl::StrCat("--shape: there is no '", options.shape, "', expected 7b or tiny"));
  }
  BenchmarkShape s = options.shape == "7b" ? Shape7B() : TinyShape();
  if (options.layers > 0) {
    s.model.num_layers = options.layers;
    for (std::vector<std::int64_t>* layers : {&s.bundle.candidate_layers, &s.bundle.default_patch_layers}) {
      for (std::int64_t& layer : *layers) layer = std::min(layer, options.layers - 1);
      layers->erase(std::unique(layers->begin(), layers->end()), layers->end());
    }
  }
  if (!options.tokens.empty()) s.tokens = options.tokens;
  if (!options.batches.empty()) s.batches = options.batches;
  if (options.context > 0) s.context = options.context;
  if (options.steps > 0) s.steps = options.steps;
  if (options.chunk > 0) s.chunk = options.chunk;
  if (options.product_rows > 0) s.product_rows = options.product_rows;
  if (options.copy_mib > 0) s.copy_bytes = options.copy_mib << 20;
  std::sort(s.tokens.begin(), s.tokens.end());

  const std::int64_t native = s.bundle.native_head + s.bundle.native_tail + 1;
  if (s.tokens.front() <= native || s.tokens.back() > s.model.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tokens: expected more than ", native, " to ", s.model.max_positions));
  }
  if (s.context + s.steps > s.model.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("--context and --steps: expected at most ", s.model.max_positions, " together"));
  }
  return s;
}

}  // namespace scd
