// The code store in a Redis or Valkey server, which several producers and consumers share.
//
// A block is the value of PREFIX + its name in hex, a record (block_record.h) that is checked each time it is
// read: one that is damaged, of another version or under another's name is deleted and counted, never given.
// A value expires at the server when its codes are as old as the time to live; what gives way when the
// server's memory is full is the server's own choice (maxmemory-policy).
//
// One thread writes what is inserted, from a bounded queue. While the server is away, or slow beyond the
// timeout, the store knows no blocks, and nobody waits for it (redis_link.h).
//
// Names of blocks depend on the producer (StateSeed), so each producer enters itself as a source of codes of
// its bundles: PREFIX + "seeds:" + the bundle in hex, a sorted set by time. Whoever knows the sources can
// name blocks without a producer (redis_sources.h).
#ifndef SCD_COMMON_STORE_REDIS_CODE_STORE_H_
#define SCD_COMMON_STORE_REDIS_CODE_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/store/code_store.h"
#include "common/store/redis_link.h"
#include "common/store/redis_sources.h"
#include "common/store/warning_throttle.h"

namespace scd {

struct RedisCodeStoreOptions {
  RedisServer server;
  std::string key_prefix = "scd:1:";
  absl::Duration ttl = absl::InfiniteDuration();     // blocks are dropped so long after their codes were made
  absl::Duration timeout = absl::Milliseconds(500);  // of one exchange: connecting, or a batch of blocks
  absl::Duration retry_interval = absl::Seconds(5);  // between tries while the server is away
  bool read_only = false;           // nothing is inserted; what is too old for this store is left to others
  std::vector<CodeSource> sources;  // this process is one; entered, and refreshed
  absl::Duration source_interval = absl::Minutes(1);
  std::int64_t max_queued_bytes = std::int64_t{64} << 20;  // that wait to be written; more are not kept
  std::int64_t max_value_bytes = std::int64_t{64} << 20;   // of one block; larger ones are none
  std::int64_t batch_bytes = std::int64_t{2} << 20;        // of blocks in one exchange, or one block
  absl::Duration close_timeout = absl::Seconds(2);         // for what waits when the store ends
  std::function<absl::Time()> now = absl::Now;
  std::function<void(const std::string&)> warn;  // may be empty; from any thread
};

class RedisCodeStore : public CodeStore {
 public:
  // Waits for one try to connect; a server that is away is tried again later.
  static std::unique_ptr<RedisCodeStore> Create(RedisCodeStoreOptions options);
  RedisCodeStore(const RedisCodeStore&) = delete;
  RedisCodeStore& operator=(const RedisCodeStore&) = delete;
  // Writes what waits, within close_timeout.
  ~RedisCodeStore() override;

  std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) override;
  std::vector<std::shared_ptr<const CodeBlock>> FindAtOnce(absl::Span<const Digest> /*keys*/,
                                                           std::size_t /*first*/) override {
    return {};
  }
  bool asks_others() const override { return true; }
  void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override;
  // Waits for its turn beside what is inserted, which has at least half of the queue to itself; nothing is
  // counted or said where there is no room, or the server is away.
  void Offer(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override;
  // The server's memory is its own: no sizes, and nothing of what it evicts.
  std::vector<CodeStoreStats> stats() const override;

  // Of so many keys in a row, from the first on, there are values. What they hold is not looked at.
  std::int64_t CountPrefix(absl::Span<const Digest> keys);
  // Sources of a bundle's codes that were there within the time to live, the latest first; at most
  // kMaxCodeSources.
  std::vector<CodeSource> FindSources(const Digest& bundle);

  bool up() const { return link_.up(); }
  // Returns when all that was inserted before is written or given up, the server being there.
  void Flush();

 private:
  struct Task {
    Digest key;
    std::shared_ptr<const CodeBlock> block;
    std::int64_t bytes = 0;
  };
  struct Found {
    std::vector<std::shared_ptr<const CodeBlock>> blocks;
    std::vector<Digest> corrupt;
    std::vector<Digest> expired;
    std::string why;  // the first of the corrupt is one

    bool ended() const { return !corrupt.empty() || !expired.empty(); }
  };

  explicit RedisCodeStore(RedisCodeStoreOptions options);
  std::string KeyOf(const Digest& key) const;
  bool Expired(absl::Time created) const { return options_.now() - created > options_.ttl; }

  // Bytes of the values of keys, 0 where there is none, kForeign where it is no string.
  static constexpr std::int64_t kForeign = -1;
  absl::StatusOr<std::vector<std::int64_t>> Lengths(RedisConnection& connection,
                                                    absl::Span<const Digest> keys) const;
  // Lengths of those in a row, from the first on, that could be blocks. What stands in their way is `found`.
  absl::StatusOr<std::vector<std::int64_t>> PrefixLengths(RedisConnection& connection,
                                                          absl::Span<const Digest> keys, Found& found) const;
  // The status is that of an exchange that failed; what came before it is in `found`.
  absl::Status Lookup(RedisConnection& connection, absl::Span<const Digest> keys, Found& found) const;
  // Blocks of values with these lengths, in one exchange.
  absl::Status ReadBatch(RedisConnection& connection, absl::Span<const Digest> keys,
                         absl::Span<const std::int64_t> lengths, Found& found) const;
  absl::Status Delete(RedisConnection& connection, absl::Span<const Digest> keys) const;

  // False where then more than so many bytes would wait. What cannot be kept there at all counts as done.
  bool Enqueue(const Digest& key, std::shared_ptr<const CodeBlock> block, std::int64_t max_queued_bytes);
  void Run();
  std::vector<Task> TakeBatch();
  // Writes those that are not there yet, and adds those that came to be there, or already were, to
  // `num_kept`.
  absl::Status Write(RedisConnection& connection, absl::Span<const Task> batch, std::int64_t& num_kept);
  void EndBatch(absl::Span<const Task> batch, std::int64_t num_kept);
  void WarnOfUnwritten();

  const RedisCodeStoreOptions options_;
  WarningThrottle drop_warnings_;
  WarningThrottle write_warnings_;
  WarningThrottle queue_warnings_;
  RedisLink link_;

  mutable absl::Mutex mutex_;
  CodeStoreStats counts_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Digest> waiting_ ABSL_GUARDED_BY(mutex_);  // in the queue, or being written
  std::int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_REDIS_CODE_STORE_H_
