// A read-only memory-mapped file.
//
// The mapping is private and never grows: whoever reads through it checks every extent against size() first. A
// file that another process truncates while it is mapped is outside what can be survived; the daemons read what
// they need at start.
#ifndef SCD_COMMON_IO_MAPPED_FILE_H_
#define SCD_COMMON_IO_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace scd {

class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file), each with the path. An empty file maps
  // to an empty span.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Brings all of it into memory now, where the system can, so that a part that cannot be read is DATA_LOSS
  // here and no signal later.
  absl::Status Load() const;

  const std::string& path() const { return path_; }
  std::size_t size() const { return size_; }
  absl::Span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  absl::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(std::string path, void* data, std::size_t size);

  std::string path_;
  void* data_;
  std::size_t size_;
};

}  // namespace scd

#endif  // SCD_COMMON_IO_MAPPED_FILE_H_
