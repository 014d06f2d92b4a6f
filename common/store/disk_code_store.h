// The code store on disk: blocks outlive the process, whatever ends it.
//
// One thread changes the folder (block_folder.h); what is inserted waits for it in a bounded queue and can be
// found meanwhile. Files are mapped to be read, and checked as a whole each time. One that is damaged, of
// another version or under another's name is removed, counted and warned about, never given. Where the disk
// is full or cannot be written, blocks are not kept: counted, warned about, and no request fails.
//
// The order of use survives restarts by the files' access times, which are written once in a while and at the
// end.
#ifndef SCD_COMMON_STORE_DISK_CODE_STORE_H_
#define SCD_COMMON_STORE_DISK_CODE_STORE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/store/block_folder.h"
#include "common/store/code_store.h"
#include "common/store/disk_index.h"
#include "common/store/warning_throttle.h"

namespace scd {

struct DiskCodeStoreOptions {
  std::string path;                               // of the folder, which one process owns at a time
  std::int64_t capacity_bytes = 0;                // of files, in units of 4 KiB
  absl::Duration ttl = absl::InfiniteDuration();  // blocks are dropped so long after their codes were made
  std::int64_t max_queued_bytes = std::int64_t{64} << 20;  // that wait to be written; more are not kept
  absl::Duration close_timeout = absl::Seconds(5);         // for what waits when the store ends
  absl::Duration upkeep_interval = absl::Minutes(1);       // access times are written, old blocks are dropped
  std::function<absl::Time()> now = absl::Now;
  std::function<void(const std::string&)> warn;  // may be empty; from any thread
};

class DiskCodeStore : public CodeStore {
 public:
  // Looks through the folder's names, not into its files. Errors of BlockFolder::Open.
  static absl::StatusOr<std::unique_ptr<DiskCodeStore>> Create(DiskCodeStoreOptions options);
  DiskCodeStore(const DiskCodeStore&) = delete;
  DiskCodeStore& operator=(const DiskCodeStore&) = delete;
  // Writes what waits, within close_timeout.
  ~DiskCodeStore() override;

  std::vector<std::shared_ptr<const CodeBlock>> FindPrefix(absl::Span<const Digest> keys) override {
    return FindAtOnce(keys, 0);
  }
  std::vector<std::shared_ptr<const CodeBlock>> FindAtOnce(absl::Span<const Digest> keys,
                                                           std::size_t first) override;
  bool asks_others() const override { return false; }
  void Insert(absl::Span<const Digest> chain, std::shared_ptr<const CodeBlock> block) override;
  std::vector<CodeStoreStats> stats() const override;

  // Returns when all that was inserted, dropped or used before is so in the folder.
  void Flush();

 private:
  // For the thread: what changed in the index.
  struct Task {
    Digest key;
    std::int64_t queued_bytes = 0;  // 0: its file is to be removed
  };

  DiskCodeStore(DiskCodeStoreOptions options, std::unique_ptr<BlockFolder> folder);
  void Load(BlockFolder::Listing listing);

  // Null where there is none that can be given.
  std::shared_ptr<const CodeBlock> Read(const Digest& key);
  std::shared_ptr<const CodeBlock> ReadFile(const Digest& key);
  bool Expired(absl::Time created, absl::Time now) const { return now - created > options_.ttl; }
  // Forgets a block that is in a file, and counts it. False where another thread did, or it is inserted
  // again.
  bool DropFile(const Digest& key, std::int64_t CodeStoreStats::*counter);
  // Their files go.
  void Remove(absl::Span<const DiskIndex::Entry> erased) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Run();
  void Write(const Task& task);
  void RemoveFile(const Digest& key);
  void DoUpkeep();
  void WarnOfUnwritten();

  const DiskCodeStoreOptions options_;
  const std::unique_ptr<BlockFolder> folder_;
  WarningThrottle drop_warnings_;
  WarningThrottle read_warnings_;
  WarningThrottle write_warnings_;
  WarningThrottle queue_warnings_;

  mutable absl::Mutex mutex_;
  DiskIndex index_ ABSL_GUARDED_BY(mutex_);
  CodeStoreStats counts_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t num_flushes_wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t num_flushes_done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // last: it uses everything above
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_DISK_CODE_STORE_H_
