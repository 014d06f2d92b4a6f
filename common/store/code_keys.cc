#include "common/store/code_keys.h"

#include <string_view>

namespace scd {

Digest StateSeed(const Digest& model, const std::string& weights, DType kv_dtype) {
  const std::string_view dtype = DTypeName(kv_dtype);
  return DigestBuilder("scd.producer_state.v1")
      .AddDigest(model)
      .AddString(weights)
      .AddString({dtype.data(), dtype.size()})
      .Finish();
}

std::vector<Digest> CodeKeys(const Digest& bundle, const LayerPlan& plan, std::int64_t first_token,
                             absl::Span<const Digest> page_keys, std::int64_t block_tokens) {
  DigestBuilder sent("scd.codes.v4");
  const std::string_view codec = CodecName(plan.codec);
  sent.AddDigest(bundle).AddString({codec.data(), codec.size()}).AddInt(plan.rate_point);
  sent.AddInt(static_cast<std::int64_t>(plan.layers.size()));
  for (const LayerRanks& layer : plan.layers) {
    const std::vector<SentKind> kinds = SentKinds(layer);
    sent.AddInt(static_cast<std::int64_t>(layer.treatment)).AddInt(static_cast<std::int64_t>(kinds.size()));
    for (const SentKind& kind : kinds) sent.AddInt(static_cast<std::int64_t>(kind.kind)).AddInt(kind.rank);
  }
  const Digest root = sent.Finish();

  std::vector<Digest> keys;
  std::int64_t first_in_block = first_token % block_tokens;
  for (auto block = static_cast<std::size_t>(first_token / block_tokens); block < page_keys.size(); ++block) {
    DigestBuilder builder("scd.codes.block.v2");
    keys.push_back(builder.AddDigest(root).AddDigest(page_keys[block]).AddInt(first_in_block).Finish());
    first_in_block = 0;
  }
  return keys;
}

}  // namespace scd
