#include "common/cache/free_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace scd {
namespace {

std::optional<std::int64_t> MachineFreeBytes(const std::string& root) {
  std::ifstream file(root + "proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    std::int64_t kib = 0;
    if (words.size() >= 2 && words[0] == "MemAvailable:" && absl::SimpleAtoi(words[1], &kib)) {
      return kib * 1024;
    }
  }
  return std::nullopt;
}

// The first line of a file as a number; nothing where it is none ("max").
std::optional<std::int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::int64_t value = 0;
  if (!std::getline(file, line) || !absl::SimpleAtoi(line, &value)) return std::nullopt;
  return value;
}

// Of the process's control group and all above it: each may have a limit.
std::optional<std::int64_t> GroupFreeBytes(const std::string& root) {
  std::ifstream file(root + "proc/self/cgroup");
  std::string line;
  std::string group;
  bool found = false;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    group = line.substr(3);
    found = true;
  }
  if (!found) return std::nullopt;
  std::optional<std::int64_t> least;
  for (;;) {
    const std::string folder = absl::StrCat(root, "sys/fs/cgroup", group == "/" ? "" : group);
    const std::optional<std::int64_t> limit = ReadNumber(folder + "/memory.max");
    const std::optional<std::int64_t> used = ReadNumber(folder + "/memory.current");
    if (limit && used) {
      const std::int64_t left = std::max<std::int64_t>(*limit - *used, 0);
      least = least ? std::min(*least, left) : left;
    }
    if (group.empty() || group == "/") return least;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

absl::StatusOr<std::int64_t> FreeMemoryBytes(const std::string& root) {
  const std::optional<std::int64_t> machine = MachineFreeBytes(root);
  const std::optional<std::int64_t> group = GroupFreeBytes(root);
  if (machine && group) return std::min(*machine, *group);
  if (machine) return *machine;
  if (group) return *group;
  return absl::UnavailableError(absl::StrCat(root, "proc/meminfo does not say how much memory is free"));
}

}  // namespace scd
