#include "calibrate/residual_rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "calibrate/host_math.h"
#include "common/cache/paged_kv_cache.h"
#include "common/cache/sequence.h"
#include "common/model/layer_tap.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kPageTokens = 16;

// Writes the residual stream of the pass that begins at `first_row` to its place.
class ResidualTap final : public LayerTap {
 public:
  ResidualTap(Backend& backend, std::int64_t tokens, std::int64_t hidden, ResidualRows& rows)
      : backend_(backend), tokens_(tokens), hidden_(hidden), rows_(rows) {}

  void set_first_row(std::int64_t first_row) { first_row_ = first_row; }

  TapKinds Wanted(std::int64_t layer) const override {
    return rows_.contains(layer) ? TapKinds(TapKind::kResidual) : TapKinds();
  }
  absl::Status OnLayer(const LayerView& view) override {
    const TensorView all = MatrixView(rows_.at(view.layer).data(), tokens_, hidden_);
    return backend_.Copy(*view.stream, all.rows(first_row_, view.residual.dim(0)), view.residual);
  }

 private:
  Backend& backend_;
  const std::int64_t tokens_;
  const std::int64_t hidden_;
  ResidualRows& rows_;
  std::int64_t first_row_ = 0;
};

}  // namespace

absl::StatusOr<ResidualRows> CollectResiduals(const Transformer& model, absl::Span<const std::int32_t> tokens,
                                              absl::Span<const std::int64_t> layers,
                                              std::int64_t max_pass_rows, std::stop_token cancel) {
  const ModelConfig& config = model.config();
  const auto count = static_cast<std::int64_t>(tokens.size());
  ResidualRows rows;
  for (const std::int64_t layer : layers) {
    rows[layer].resize(static_cast<std::size_t>(count * config.hidden_size));
  }
  SCD_ASSIGN_OR_RETURN(const auto cache, PagedKvCache::Create(model.backend(),
                                                              {.num_layers = config.num_layers,
                                                               .num_kv_heads = config.num_kv_heads,
                                                               .head_dim = config.head_dim,
                                                               .page_tokens = kPageTokens},
                                                              (count + kPageTokens - 1) / kPageTokens));
  SCD_ASSIGN_OR_RETURN(const auto sequence, Sequence::Create(*cache, count));
  SCD_ASSIGN_OR_RETURN(const auto workspace, model.CreateWorkspace(std::min(max_pass_rows, count), 0));
  ResidualTap tap(model.backend(), count, config.hidden_size, rows);
  for (std::int64_t first = 0; first < count; first += max_pass_rows) {
    tap.set_first_row(first);
    const std::int64_t pass = std::min(max_pass_rows, count - first);
    const ForwardChunk chunk{
        .sequence = sequence.get(),
        .tokens = tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(pass)),
        .first_position = first,
        .logits = LogitsWanted::kNone};
    SCD_RETURN_IF_ERROR(model.Forward(*workspace, {&chunk, 1}, {.tap = &tap, .cancel = cancel}));
  }
  return rows;
}

}  // namespace scd
