#include "common/trace/trace_file_name.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

constexpr std::string_view kExtension = ".json";

bool IsSafe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

std::string SafeId(std::string_view request_id) {
  std::string safe(request_id.substr(0, kMaxNameIdBytes));
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return !IsSafe(c); }, '_');
  if (safe.empty()) return "request";
  if (safe.front() == '.') safe.front() = '_';
  return safe;
}

bool DropSuffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::string TraceFileName(std::string_view request_id, std::string_view side, std::int64_t sequence) {
  return absl::StrCat(SafeId(request_id), ".", std::string(side), ".", absl::Dec(sequence, absl::kZeroPad6),
                      std::string(kExtension));
}

std::optional<std::int64_t> SequenceOfTraceFile(std::string_view name, std::string_view side) {
  DropSuffix(&name, kPartSuffix);
  if (!DropSuffix(&name, kExtension)) return std::nullopt;
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(dot + 1);
  std::int64_t sequence = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), sequence);
  if (error != std::errc() || end != digits.data() + digits.size() || sequence < 0) return std::nullopt;
  name = name.substr(0, dot);
  if (!DropSuffix(&name, side) || name.size() < 2 || name.back() != '.') return std::nullopt;
  return sequence;
}

}  // namespace scd
