#include "common/store/block_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr absl::string_view kBlockEnding = ".block";
constexpr absl::string_view kPartEnding = ".part";

absl::Status ErrnoStatus(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

std::string WritingFolder(const std::string& folder) {
  return absl::StrCat(folder, "/writing");
}

std::string Subfolder(const std::string& folder, const Digest& key) {
  return absl::StrCat(folder, "/", key.ToHex().substr(0, 2));
}

// Calls f(name) for each entry. OK where the folder is not there.
template <typename F>
absl::Status ForEachEntry(const std::string& folder, const F& f) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(folder, "cannot list");
  const absl::Cleanup close = [dir] { closedir(dir); };
  errno = 0;
  while (const dirent* entry = readdir(dir)) {
    f(std::string(entry->d_name));
    errno = 0;
  }
  return errno == 0 ? absl::OkStatus() : ErrnoStatus(folder, "cannot list");
}

// The lock file names its owner for others' messages.
absl::StatusOr<int> TakeLock(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(path, "cannot open");
  absl::Cleanup close_it = [fd] { close(fd); };
  std::array<char, 20> owner{};
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(path, "cannot lock");
    const ssize_t size = pread(fd, owner.data(), owner.size() - 1, 0);
    std::string pid(owner.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) pid = "unknown";
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": another process (pid ", pid, ") keeps its codes there"));
  }
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoStatus(path, "cannot write");
  }
  std::move(close_it).Cancel();
  return fd;
}

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::ErrnoToStatus(written == 0 ? ENOSPC : errno, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockFolder>> BlockFolder::Open(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": cannot make the folder"));
  const std::string writing = WritingFolder(path);
  if (mkdir(writing.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(writing, "cannot make the folder");
  SCD_ASSIGN_OR_RETURN(const int lock_fd, TakeLock(path));
  std::unique_ptr<BlockFolder> folder(new BlockFolder(path, lock_fd));
  SCD_RETURN_IF_ERROR(ForEachEntry(writing, [&writing](const std::string& name) {
    if (absl::EndsWith(name, kPartEnding)) unlink(absl::StrCat(writing, "/", name).c_str());
  }));
  return folder;
}

absl::Status BlockFolder::Check(const std::string& path) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(path, error);
  while (!error && !std::filesystem::exists(place, error) && !error && place.has_relative_path()) {
    place = place.parent_path();
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": cannot be looked at"));
  if (!std::filesystem::is_directory(place, error)) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", place.string(), " is not a folder"));
  }
  if (access(place.c_str(), R_OK | W_OK | X_OK) != 0) {
    return ErrnoStatus(path, absl::StrCat("cannot write in ", place.string()));
  }
  return absl::OkStatus();
}

BlockFolder::~BlockFolder() {
  close(lock_fd_);
}

absl::StatusOr<BlockFolder::Listing> BlockFolder::List() const {
  constexpr absl::string_view kHex = "0123456789abcdef";
  Listing listing;
  for (std::size_t i = 0; i < 256; ++i) {
    const std::string prefix = {kHex[i / 16], kHex[i % 16]};
    const std::string folder = absl::StrCat(path_, "/", prefix);
    SCD_RETURN_IF_ERROR(ForEachEntry(folder, [&](const std::string& name) {
      if (!absl::EndsWith(name, kBlockEnding)) return;
      const std::string path = absl::StrCat(folder, "/", name);
      struct stat info {};
      if (lstat(path.c_str(), &info) != 0) return;
      const auto key = Digest::FromHex(name.substr(0, name.size() - kBlockEnding.size()));
      if (!key.ok() || PathOf(*key) != path || !S_ISREG(info.st_mode)) {
        if (!S_ISDIR(info.st_mode)) listing.strangers.push_back(path);
        return;
      }
      listing.files.push_back({.key = *key,
                               .bytes = static_cast<std::int64_t>(info.st_size),
                               .created = absl::TimeFromTimespec(info.st_mtim),
                               .used = absl::TimeFromTimespec(info.st_atim)});
    }));
  }
  return listing;
}

std::string BlockFolder::PathOf(const Digest& key) const {
  return absl::StrCat(Subfolder(path_, key), "/", key.ToHex(), kBlockEnding);
}

absl::Status BlockFolder::Write(const Digest& key, absl::string_view record, absl::Time created,
                                absl::Time used) {
  const std::string path = PathOf(key);
  const std::string part = absl::StrCat(WritingFolder(path_), "/", key.ToHex(), kPartEnding);
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(part, "cannot make the file");
  absl::Status status = WriteAll(fd, record);
  const std::array<timespec, 2> times = {absl::ToTimespec(used), absl::ToTimespec(created)};
  if (status.ok() && futimens(fd, times.data()) != 0)
    status = absl::ErrnoToStatus(errno, "cannot set its times");
  if (status.ok() && fsync(fd) != 0) status = absl::ErrnoToStatus(errno, "cannot sync");
  if (close(fd) != 0 && status.ok()) status = absl::ErrnoToStatus(errno, "cannot close");
  if (status.ok() && rename(part.c_str(), path.c_str()) != 0) {
    // The first block in its subfolder.
    if (errno == ENOENT) mkdir(Subfolder(path_, key).c_str(), 0700);
    if (rename(part.c_str(), path.c_str()) != 0) status = absl::ErrnoToStatus(errno, "cannot rename to it");
  }
  if (status.ok()) return status;
  unlink(part.c_str());
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Status BlockFolder::Remove(const Digest& key) const {
  const std::string path = PathOf(key);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(path, "cannot remove");
  return absl::OkStatus();
}

void BlockFolder::RemoveStranger(const std::string& path) {
  unlink(path.c_str());
}

absl::Status BlockFolder::SetUsed(const Digest& key, absl::Time used) const {
  const std::string path = PathOf(key);
  const std::array<timespec, 2> times = {absl::ToTimespec(used),
                                         timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  if (utimensat(AT_FDCWD, path.c_str(), times.data(), 0) != 0 && errno != ENOENT) {
    return ErrnoStatus(path, "cannot set its times");
  }
  return absl::OkStatus();
}

}  // namespace scd
