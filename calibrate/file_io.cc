#include "calibrate/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;  // one read or write call

}  // namespace

absl::Status FileError(const std::string& path, absl::string_view what) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", what);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(message, ": the disk is full"));
  }
  return absl::ErrnoToStatus(error, message);
}

OutputFile::OutputFile(std::string path, int descriptor, std::int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

OutputFile::~OutputFile() {
  close(descriptor_);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path, std::int64_t size) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return FileError(path, "cannot open for writing");
  std::unique_ptr<OutputFile> file(new OutputFile(path, descriptor, size));
  struct stat info;
  if (fstat(descriptor, &info) != 0) return FileError(path, "cannot tell its size");
  if (info.st_size < size) {
    return absl::DataLossError(absl::StrCat(path, ": holds ", info.st_size, " bytes, expected ", size));
  }
  if (ftruncate(descriptor, size) != 0) return FileError(path, "cannot cut");
  return file;
}

absl::Status OutputFile::Append(absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes), size_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path_, "cannot write");
    size_ += written;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Flush() {
  if (fdatasync(descriptor_) != 0) return FileError(path_, "cannot flush");
  return absl::OkStatus();
}

absl::Status OutputFile::Read(std::int64_t offset, absl::Span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = pread(descriptor_, out.data(), std::min(out.size(), kMaxTransferBytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path_, "cannot read");
    if (count == 0) return absl::DataLossError(absl::StrCat(path_, ": ends before byte ", offset));
    offset += count;
    out.remove_prefix(static_cast<std::size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace scd
