#include "common/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace scd {
namespace {

absl::Status ErrnoStatus(int error, const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(error, absl::StrCat(path, ": ", what));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path of a file is empty");
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return ErrnoStatus(errno, path, "cannot open");
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path, "cannot read its size");
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, path, "cannot map");
  return std::unique_ptr<MappedFile>(new MappedFile(path, data, size));
}

absl::Status MappedFile::Load() const {
#ifdef MADV_POPULATE_READ
  // Kernels before 5.14 do not know it.
  if (size_ > 0 && madvise(data_, size_, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
    return absl::DataLossError(absl::StrCat(path_, ": cannot be read"));
  }
#endif
  return absl::OkStatus();
}

MappedFile::MappedFile(std::string path, void* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace scd
