#include "bench/gpu/model_rig.h"

#include <algorithm>

#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<ModelRig> ModelRig::Create(Backend& backend, const BenchmarkShape& shape,
                                          const MadeUpNumbers& numbers) {
  ModelRig rig;
  rig.backend_ = &backend;
  rig.shape_ = &shape;
  const ModelConfig& c = shape.model;
  const MadeUpWeights weights(c, numbers);
  SCD_ASSIGN_OR_RETURN(rig.transformer_,
                       Transformer::Create(c, weights, backend, {.weights = WeightsFormat::kBF16}));
  const std::int64_t most_sequences = *std::max_element(shape.batches.begin(), shape.batches.end());
  const std::int64_t decode_pages = most_sequences * ((shape.context + shape.steps) / kPageTokens + 1);
  const std::int64_t transfer_pages = 2 * (shape.tokens.back() / kPageTokens + 1);
  SCD_ASSIGN_OR_RETURN(
      rig.cache_,
      PagedKvCache::Create(backend, {c.num_layers, c.num_kv_heads, c.head_dim, kPageTokens, DType::kBF16},
                           std::max(decode_pages, transfer_pages)));
  SCD_ASSIGN_OR_RETURN(rig.workspace_, rig.transformer_->CreateWorkspace(
                                           std::max(shape.chunk, most_sequences), most_sequences));
  for (std::int64_t i = 0; i < c.max_positions; ++i) {
    rig.tokens_.push_back(static_cast<std::int32_t>((i * 7919 + 13) % c.vocab_size));
  }
  return rig;
}

absl::Span<const std::int32_t> ModelRig::tokens(std::int64_t first, std::int64_t count) const {
  return absl::MakeConstSpan(tokens_).subspan(static_cast<std::size_t>(first),
                                              static_cast<std::size_t>(count));
}

absl::Status ModelRig::Prefill(Sequence& sequence, std::int64_t begin, std::int64_t end, LogitsWanted logits,
                               const ForwardOptions& options) const {
  while (begin < end) {
    const std::int64_t next = std::min(begin + shape_->chunk, end);
    const ForwardChunk chunk{&sequence, tokens(begin, next - begin), begin,
                             next == end ? logits : LogitsWanted::kNone};
    SCD_RETURN_IF_ERROR(transformer_->Forward(*workspace_, {&chunk, 1}, options));
    begin = next;
  }
  return absl::OkStatus();
}

double ModelRig::LayersFlopPerToken() const {
  const ModelConfig& c = shape_->model;
  const std::int64_t numbers =
      c.num_layers * c.hidden_size * (2 * c.d_q() + 2 * c.d_kv() + 3 * c.intermediate_size);
  return 2.0 * static_cast<double>(numbers);
}

double ModelRig::PrefillFlop(std::int64_t tokens) const {
  const ModelConfig& c = shape_->model;
  const auto n = static_cast<double>(tokens);
  const double attention = 4.0 * (n * (n + 1) / 2) * static_cast<double>(c.d_q() * c.num_layers);
  return n * LayersFlopPerToken() + attention;
}

}  // namespace scd
