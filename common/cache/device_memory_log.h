// Says at start what takes how much of a device's memory.
#ifndef SCD_COMMON_CACHE_DEVICE_MEMORY_LOG_H_
#define SCD_COMMON_CACHE_DEVICE_MEMORY_LOG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace scd {

// Silent where the device's memory is the host's.
class DeviceMemoryLog {
 public:
  // Each line goes to `say`. `backend` outlives this.
  static absl::StatusOr<DeviceMemoryLog> Begin(Backend& backend, std::function<void(const std::string&)> say);

  // `part` took what was allocated since the last call.
  absl::Status Note(std::string_view part);
  // As it was at the last call; nullopt: the device's memory is the host's.
  std::optional<std::int64_t> free_bytes() const { return free_bytes_; }

 private:
  DeviceMemoryLog(Backend& backend, std::function<void(const std::string&)> say,
                  std::optional<std::int64_t> free_bytes)
      : backend_(&backend), say_(std::move(say)), free_bytes_(free_bytes) {}

  Backend* backend_;
  std::function<void(const std::string&)> say_;
  std::optional<std::int64_t> free_bytes_;
};

}  // namespace scd

#endif  // SCD_COMMON_CACHE_DEVICE_MEMORY_LOG_H_
