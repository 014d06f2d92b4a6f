#include "common/bundle/bundle_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/bundle/bundle.h"
#include "common/bundle/bundle_layout.h"
#include "common/io/mapped_file.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

namespace fs = std::filesystem;

absl::Status Errno(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

absl::Status FlushToDisk(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Errno(path, "cannot open");
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (fsync(fd) != 0) return Errno(path, "cannot flush to disk");
  return absl::OkStatus();
}

absl::Status WriteText(const std::string& path, std::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return Errno(path, "cannot create");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (const bool closed = std::fclose(file) == 0; !written || !closed) return Errno(path, "cannot write");
  return FlushToDisk(path);
}

// A new folder on the same file system, with the permissions that the umask gives (mkdtemp's would be the
// owner's alone).
absl::StatusOr<std::string> MakeFolderBeside(const std::string& target) {
  constexpr int kTries = 1000;
  std::error_code error;
  for (int i = 0; i < kTries; ++i) {
    std::string folder = absl::StrCat(target, ".partial-", getpid(), "-", i);
    if (fs::create_directory(folder, error)) return folder;
    if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(folder, ": cannot create"));
  }
  return absl::AlreadyExistsError(absl::StrCat(target, ": too many unfinished folders beside it"));
}

// Whether something may stand at `folder` and be replaced.
absl::StatusOr<bool> IsReplaceable(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (status.type() == fs::file_type::directory) {
    if (fs::is_empty(folder, error) || fs::exists(fs::path(folder) / kManifestFile, error)) return true;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(folder, ": is there and is no bundle; it is left alone, name another folder"));
}

// Puts `from` in the place of `to`. Where `to` exists the two change places in one step, or, on file systems
// that cannot do this, `to` is first moved aside and moved back if the second step fails; it ends up at
// `from`.
absl::Status PutInPlace(const std::string& from, const std::string& to, bool exists) {
  if (!exists) {
    return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : Errno(to, "cannot rename to it");
  }
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return absl::OkStatus();
  if (errno != EINVAL && errno != ENOSYS) return Errno(to, "cannot replace");
  const std::string aside = absl::StrCat(from, ".old");
  if (rename(to.c_str(), aside.c_str()) != 0) return Errno(to, "cannot move aside");
  if (rename(from.c_str(), to.c_str()) != 0) {
    const absl::Status failed = Errno(to, "cannot rename to it");
    if (rename(aside.c_str(), to.c_str()) != 0) return Errno(aside, "cannot move back");
    return failed;
  }
  return rename(aside.c_str(), from.c_str()) == 0 ? absl::OkStatus() : Errno(aside, "cannot rename");
}

absl::StatusOr<Digest> WriteFiles(const std::string& folder, BundleManifest& manifest,
                                  const std::vector<NamedTensor>& tensors) {
  const std::string tensors_path = absl::StrCat(folder, "/", kTensorsFile);
  SCD_RETURN_IF_ERROR(WriteSafetensors(tensors_path, tensors, {{"format", "scd.bundle.v1"}}));
  SCD_ASSIGN_OR_RETURN(const auto tensors_file, MappedFile::Open(tensors_path));
  manifest.tensors_digest = Bundle::TensorsDigest(tensors_file->bytes());
  SCD_RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/", kManifestFile), ManifestToJson(manifest)));
  SCD_RETURN_IF_ERROR(FlushToDisk(folder));
  SCD_ASSIGN_OR_RETURN(const auto bundle, Bundle::Open(folder));
  return bundle->digest();
}

}  // namespace

absl::StatusOr<Digest> WriteBundle(const std::string& folder, BundleManifest manifest,
                                   const std::vector<NamedTensor>& tensors) {
  std::error_code error;
  fs::path target = fs::absolute(folder, error).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "bundles/x/"
  if (error || !target.has_relative_path()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", folder, "\" names no folder to write a bundle to"));
  }
  SCD_ASSIGN_OR_RETURN(const bool exists, IsReplaceable(target.string()));
  const std::string parent = target.parent_path().string();
  fs::create_directories(parent, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(parent, ": cannot create"));

  SCD_ASSIGN_OR_RETURN(const std::string temporary, MakeFolderBeside(target.string()));
  const absl::Cleanup remove_temporary = [&temporary] {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
  };
  SCD_ASSIGN_OR_RETURN(const Digest digest, WriteFiles(temporary, manifest, tensors));
  SCD_RETURN_IF_ERROR(PutInPlace(temporary, target.string(), exists));
  SCD_RETURN_IF_ERROR(FlushToDisk(parent));
  return digest;
}

}  // namespace scd
