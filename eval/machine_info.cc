#include "eval/machine_info.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace scd {
namespace {

// The value of the first line that begins with `key`, up to `separator`.
std::string Value(const char* path, const std::string& key, char separator) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t at = line.find(separator, key.size());
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    absl::StripAsciiWhitespace(&value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    return value;
  }
  return "";
}

std::int64_t NumCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

MachineInfo ThisMachine() {
  MachineInfo info;
  info.cpu = Value("/proc/cpuinfo", "model name", ':');
  info.cores = NumCores();
  info.memory_gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                    static_cast<double>(sysconf(_SC_PAGE_SIZE)) / static_cast<double>(1 << 30);
  info.os = Value("/etc/os-release", "PRETTY_NAME", '=');
  return info;
}

std::string UtcNow() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
}

}  // namespace scd
