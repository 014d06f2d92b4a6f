// Who has put codes into a shared store: entries of a sorted set by the time at which each was last there.
//
// PREFIX + "seeds:" + the bundle in hex holds "SEED:TOKENS", the producer's StateSeed in hex and the tokens
// of its blocks, with seconds since 1970 as the score.
#ifndef SCD_COMMON_STORE_REDIS_SOURCES_H_
#define SCD_COMMON_STORE_REDIS_SOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/io/digest.h"
#include "common/store/redis_connection.h"

namespace scd {

// Whose codes of a bundle there are: what names of blocks begin with (code_keys.h), and the tokens of a
// block.
struct CodeSource {
  Digest bundle;
  Digest seed;
  std::int64_t block_tokens = 0;

  friend bool operator==(const CodeSource&, const CodeSource&) = default;
};

// Of a bundle: most that are kept, and most that are given.
inline constexpr int kMaxKeptSources = 32;
inline constexpr int kMaxCodeSources = 8;

// Enters sources, or refreshes their time; those that were last there before `oldest` go. The status is that
// of an exchange that failed; a server that refuses is FAILED_PRECONDITION.
absl::Status EnterSources(RedisConnection& connection, const std::string& key_prefix,
                          absl::Span<const CodeSource> sources, absl::Time now, absl::Time oldest,
                          absl::Time deadline);

// Those of a bundle since `oldest`, the latest first; entries that are none are passed over.
absl::StatusOr<std::vector<CodeSource>> ReadSources(RedisConnection& connection,
                                                    const std::string& key_prefix, const Digest& bundle,
                                                    absl::Time oldest, absl::Time deadline);

}  // namespace scd

#endif  // SCD_COMMON_STORE_REDIS_SOURCES_H_
