// Codes that producers left in a shared store, found without any of them.
//
// Names of blocks depend on the producer that made them; the store knows which there were (redis_sources.h),
// and each of these is tried. What a store gives is outside input: it is checked as a stream is.
#ifndef SCD_CONSUMER_SHARED_CODES_H_
#define SCD_CONSUMER_SHARED_CODES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/io/digest.h"
#include "common/store/redis_code_store.h"
#include "common/wire/layer_code.h"
#include "consumer/code_client.h"

namespace scd {

// Thread-safe.
class SharedCodes {
 public:
  SharedCodes(std::unique_ptr<RedisCodeStore> store, const Digest& bundle)
      : store_(std::move(store)), bundle_(bundle) {}

  struct Codes {
    std::vector<LayerCode> codes;  // checked, complete, in order
    TokenRange range;  // from the beginning of what was asked for; at most max_uncoded_tokens are missing
  };
  // Nothing where the store does not have as much, or what it has is no good. Asks the store, so it takes as
  // long as that may take; gives up between two questions when the request's deadline is over.
  std::optional<Codes> Find(const CodeRequest& request);

  const RedisCodeStore& store() const { return *store_; }
  // Requests that were answered so, and such that were not.
  std::int64_t num_served() const { return num_served_; }
  std::int64_t num_unknown() const { return num_unknown_; }

 private:
  std::optional<Codes> FindOf(const CodeRequest& request, const CodeSource& source);

  const std::unique_ptr<RedisCodeStore> store_;
  const Digest bundle_;
  std::atomic<std::int64_t> num_served_ = 0;
  std::atomic<std::int64_t> num_unknown_ = 0;
};

}  // namespace scd

#endif  // SCD_CONSUMER_SHARED_CODES_H_
