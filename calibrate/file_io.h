// Files that grow at their end and are read back by offset, with errors that name the path and tell a full
// disk.
#ifndef SCD_CALIBRATE_FILE_IO_H_
#define SCD_CALIBRATE_FILE_IO_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scd {

// errno as a Status: "<path>: <what>: ...". RESOURCE_EXHAUSTED for a full disk or quota.
absl::Status FileError(const std::string& path, absl::string_view what);

class OutputFile {
 public:
  // Opens or makes the file and cuts it to `size` bytes; DATA_LOSS where it is shorter.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path, std::int64_t size);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  absl::Status Append(absl::Span<const std::byte> bytes);
  std::int64_t size() const { return size_; }
  // To the disk.
  absl::Status Flush();
  // Exactly out.size() bytes from `offset` on; DATA_LOSS where the file ends before. Thread-safe.
  absl::Status Read(std::int64_t offset, absl::Span<std::byte> out) const;

 private:
  OutputFile(std::string path, int descriptor, std::int64_t size);

  const std::string path_;
  const int descriptor_;
  std::int64_t size_;
};

}  // namespace scd

#endif  // SCD_CALIBRATE_FILE_IO_H_
