#include "calibrate/mapped_rows.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"
#include "calibrate/file_io.h"

namespace scd {

MappedRows::MappedRows(void* data, std::size_t bytes, std::int64_t rows, std::int64_t columns)
    : data_(data), bytes_(bytes), rows_(rows), columns_(columns) {}

MappedRows::~MappedRows() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::StatusOr<std::unique_ptr<MappedRows>> MappedRows::Create(const std::string& folder, std::int64_t rows,
                                                               std::int64_t columns) {
  const std::size_t bytes = static_cast<std::size_t>(rows * columns) * sizeof(float);
  if (bytes == 0) return std::unique_ptr<MappedRows>(new MappedRows(nullptr, 0, rows, columns));
  std::string path = folder + "/rows-XXXXXX";
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return FileError(path, "cannot make a scratch file");
  const absl::Cleanup close_file = [descriptor] { close(descriptor); };
  unlink(path.c_str());
  errno = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (errno != 0) return FileError(path, "cannot make a scratch file");
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return FileError(path, "cannot map");
  return std::unique_ptr<MappedRows>(new MappedRows(data, bytes, rows, columns));
}

}  // namespace scd
