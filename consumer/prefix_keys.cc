#include "consumer/prefix_keys.h"

#include <algorithm>

#include "common/cache/block_keys.h"
#include "common/config/codec.h"
#include "common/model/string_views.h"

namespace scd {
namespace {

// What a Fused layer's network makes of a position depends on where its granule begins, which for one that a
// block ends in would be where the request's codes began.
bool BlocksAreGranules(const LayerPlan& plan, std::int64_t page_tokens) {
  const auto is_fused = [](const LayerRanks& layer) { return layer.treatment == LayerTreatment::kFused; };
  return page_tokens % kFusedGranule == 0 || std::none_of(plan.layers.begin(), plan.layers.end(), is_fused);
}

}  // namespace

PrefixKeys::PrefixKeys(const PrefixKeysOptions& options) : options_(options) {
  native_ = DigestBuilder("scd.kv_state.native.v1")
                .AddDigest(options.model)
                .AddString(options.weights)
                .AddString(ToAbsl(DTypeName(options.kv_dtype)))
                .AddInt(options.page_tokens)
                .Finish();
}

std::vector<Digest> PrefixKeys::Native(absl::Span<const std::int32_t> tokens) const {
  if (options_.page_tokens == 0) return {};
  return BlockKeys(native_, tokens, options_.page_tokens);
}

std::vector<Digest> PrefixKeys::Rebuilt(std::string_view mode, const LayerPlan& plan,
                                        absl::Span<const std::int32_t> tokens) const {
  if (options_.page_tokens == 0 || !BlocksAreGranules(plan, options_.page_tokens)) return {};
  DigestBuilder seed("scd.kv_state.rebuilt.v2");
  seed.AddDigest(native_).AddDigest(options_.bundle).AddString(ToAbsl(mode));
  seed.AddInt(static_cast<std::int64_t>(plan.codec)).AddInt(plan.rate_point).AddInt(plan.native_head);
  for (const LayerRanks& layer : plan.layers) {
    seed.AddInt(static_cast<std::int64_t>(layer.treatment));
    seed.AddInt(layer.rank_k)
        .AddInt(layer.rank_v)
        .AddInt(layer.rank_h)
        .AddInt(layer.residual)
        .AddInt(layer.rank_kv);
  }
  return BlockKeys(seed.Finish(), tokens, options_.page_tokens);
}

}  // namespace scd
