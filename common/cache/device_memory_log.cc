#include "common/cache/device_memory_log.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

double MiB(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

absl::StatusOr<DeviceMemoryLog> DeviceMemoryLog::Begin(Backend& backend,
                                                       std::function<void(const std::string&)> say) {
  SCD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> free_bytes, backend.FreeDeviceBytes());
  if (free_bytes) say(absl::StrFormat("device memory: %.1f MiB to share out", MiB(*free_bytes)));
  return DeviceMemoryLog(backend, std::move(say), free_bytes);
}

absl::Status DeviceMemoryLog::Note(std::string_view part) {
  if (!free_bytes_) return absl::OkStatus();
  SCD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> now, backend_->FreeDeviceBytes());
  if (!now) return absl::OkStatus();
  const std::int64_t before = *std::exchange(free_bytes_, now);
  say_(absl::StrFormat("device memory: %s %.1f MiB, %.1f MiB left", std::string(part), MiB(before - *now),
                       MiB(*now)));
  return absl::OkStatus();
}

}  // namespace scd
