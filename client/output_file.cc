#include "client/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr mode_t kFileMode = 0666;  // less the process's mask

absl::Status CannotBeWritten(const std::string& path, int error) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": cannot be written: ", std::generic_category().message(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(const std::string& path) {
  struct stat entry {};
  const bool is_new = lstat(path.c_str(), &entry) != 0 && errno == ENOENT;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kFileMode);
  if (descriptor < 0) return CannotBeWritten(path, errno);
  auto file = absl::WrapUnique(new OutputFile(path, descriptor, is_new));
  if (fstat(descriptor, &entry) != 0) return CannotBeWritten(path, errno);
  // A device that takes nothing says so at its first byte; blanks before a document are none of it.
  if (S_ISCHR(entry.st_mode)) SCD_RETURN_IF_ERROR(file->WriteAll("\n"));
  return file;
}

OutputFile::~OutputFile() {
  close(descriptor_);
  if (remove_) unlink(path_.c_str());
}

absl::Status OutputFile::Write(std::string_view text) {
  remove_ = false;
  struct stat entry {};
  if (fstat(descriptor_, &entry) != 0) return CannotBeWritten(path_, errno);
  if (S_ISREG(entry.st_mode) && ftruncate(descriptor_, 0) != 0) return CannotBeWritten(path_, errno);
  return WriteAll(text);
}

absl::Status OutputFile::WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return CannotBeWritten(path_, written < 0 ? errno : EIO);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace scd
