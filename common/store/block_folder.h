// A folder of block records, one file for each: FOLDER/ab/abcd....block, named by the key in hex.
//
// A record is written as FOLDER/writing/....part, synced to the disk and then renamed, so that whatever ends
// the process, or the machine, a name stands for a whole record or for nothing. The rename itself is not
// synced: losing it loses the block alone. Only files with such names are ever removed. A file's modification
// time says when its codes were made, its access time when they were last used.
#ifndef SCD_COMMON_STORE_BLOCK_FOLDER_H_
#define SCD_COMMON_STORE_BLOCK_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/io/digest.h"

namespace scd {

class BlockFolder {
 public:
  // Makes the folder where it is absent, takes its lock, and removes what writing left behind.
  // FAILED_PRECONDITION where another process has the lock; errors name the path. What is put there is for
  // this user alone.
  static absl::StatusOr<std::unique_ptr<BlockFolder>> Open(const std::string& path);
  // Whether Open can work, as far as can be seen without changing anything; another's lock is no objection.
  static absl::Status Check(const std::string& path);

  BlockFolder(const BlockFolder&) = delete;
  BlockFolder& operator=(const BlockFolder&) = delete;
  ~BlockFolder();

  struct File {
    Digest key;
    std::int64_t bytes = 0;
    absl::Time created;
    absl::Time used;
  };
  struct Listing {
    std::vector<File> files;
    std::vector<std::string> strangers;  // paths that end as blocks do but are none by their name or kind
  };
  absl::StatusOr<Listing> List() const;

  const std::string& path() const { return path_; }
  std::string PathOf(const Digest& key) const;

  // Not from several threads at a time.
  absl::Status Write(const Digest& key, absl::string_view record, absl::Time created, absl::Time used);
  // OK where it is not there.
  absl::Status Remove(const Digest& key) const;
  absl::Status SetUsed(const Digest& key, absl::Time used) const;
  // One of Listing::strangers. Where it cannot be removed it stays.
  static void RemoveStranger(const std::string& path);

 private:
  BlockFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  const std::string path_;
  const int lock_fd_;  // the lock goes when it is closed, also by the process's end
};

}  // namespace scd

#endif  // SCD_COMMON_STORE_BLOCK_FOLDER_H_
