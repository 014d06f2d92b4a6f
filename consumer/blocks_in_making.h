// Which running request is about to make which block known, so that others that need the same block wait for
// it instead of making it again. For the engine's thread.
#ifndef SCD_CONSUMER_BLOCKS_IN_MAKING_H_
#define SCD_CONSUMER_BLOCKS_IN_MAKING_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "common/io/digest.h"

namespace scd {

class BlocksInMaking {
 public:
  // `maker` makes these blocks from now on, but for those that another makes already.
  void Claim(std::uint64_t maker, absl::Span<const Digest> keys) {
    for (const Digest& key : keys) {
      if (makers_.emplace(key, maker).second) claims_[maker].push_back(key);
    }
  }
  // It makes none any more: they are known, or it has given up.
  void Drop(std::uint64_t maker) {
    const auto it = claims_.find(maker);
    if (it == claims_.end()) return;
    for (const Digest& key : it->second) makers_.erase(key);
    claims_.erase(it);
  }
  bool IsBeingMade(const Digest& key) const { return makers_.contains(key); }
  bool empty() const { return makers_.empty(); }

 private:
  std::map<Digest, std::uint64_t> makers_;
  std::map<std::uint64_t, std::vector<Digest>> claims_;  // by maker
};

}  // namespace scd

#endif  // SCD_CONSUMER_BLOCKS_IN_MAKING_H_
