#include "calibrate/output_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "calibrate/file_io.h"
#include "common/bundle/bundle_layout.h"

namespace scd {

namespace fs = std::filesystem;

absl::Status CheckWritable(absl::string_view field, const std::string& path) {
  fs::path folder = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  std::string probe = (folder / ".scd-calibrate-XXXXXX").string();
  const int descriptor = mkostemp(probe.data(), O_CLOEXEC);
  if (descriptor < 0) return FileError(absl::StrCat(field, ": ", path), "cannot write in " + folder.string());
  close(descriptor);
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::Status CheckOutput(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_empty(path, ignored) &&
      !fs::exists(fs::path(path) / kManifestFile, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat("output: ", path, ": is there and is no bundle; it is not replaced"));
  }
  return CheckWritable("output", path);
}

}  // namespace scd
