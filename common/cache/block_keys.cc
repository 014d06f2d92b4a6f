#include "common/cache/block_keys.h"

#include <algorithm>
#include <cstddef>

namespace scd {

std::vector<Digest> BlockKeys(const Digest& seed, absl::Span<const std::int32_t> tokens,
                              std::int64_t page_tokens) {
  const auto block = static_cast<std::size_t>(std::max<std::int64_t>(page_tokens, 1));
  std::vector<Digest> keys;
  keys.reserve(tokens.size() / block);
  Digest last = seed;
  for (std::size_t begin = 0; tokens.size() - begin >= block; begin += block) {
    DigestBuilder builder("scd.kv_block.v1");
    builder.AddDigest(last);
    for (std::size_t i = 0; i < block; ++i) builder.AddInt(tokens[begin + i]);
    last = builder.Finish();
    keys.push_back(last);
  }
  return keys;
}

}  // namespace scd
