// The folder of a run's unfinished work, by which a run that was killed goes on where it was. It holds
// records: each a file that is replaced atomically and carries the digest of everything it was computed from,
// so that a record of other models, another corpus or other settings is never taken for one of this run.
#ifndef SCD_CALIBRATE_WORK_FOLDER_H_
#define SCD_CALIBRATE_WORK_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/digest.h"

namespace scd {

struct WorkRecord {
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  std::vector<float> values;
};

class WorkFolder {
 public:
  // Makes the folder where it is absent, and locks it: FAILED_PRECONDITION where another run works in it.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Open(const std::string& path);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  // Unlocks it.
  ~WorkFolder();

  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // RESOURCE_EXHAUSTED where the disk is full; the record that was there stays then.
  absl::Status Write(const std::string& name, const Digest& inputs, const WorkRecord& record);
  // NOT_FOUND where there is none, or only one of other inputs, or a damaged one.
  absl::StatusOr<WorkRecord> Read(const std::string& name, const Digest& inputs) const;

  // RESOURCE_EXHAUSTED unless `bytes` more fit on the disk.
  absl::Status CheckSpace(std::uint64_t bytes) const;

  // Removes everything that runs keep here, and the folder where nothing else is in it.
  void Clear();

 private:
  WorkFolder(std::string path, int lock);

  const std::string path_;
  const int lock_;  // file descriptor
};

}  // namespace scd

#endif  // SCD_CALIBRATE_WORK_FOLDER_H_
