// The ways in which a prompt's state can come to this consumer, by the names that YAML and requests use.
#ifndef SCD_CONSUMER_TRANSFER_MODE_NAMES_H_
#define SCD_CONSUMER_TRANSFER_MODE_NAMES_H_

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace scd {

inline constexpr std::string_view kLocalMode = "local";  // native prefill, nothing is transferred
inline constexpr std::string_view kScdMode = "scd";      // rebuilt from semantic codes

inline constexpr std::array kModeNames = {kScdMode, kLocalMode};

inline bool IsModeName(std::string_view name) {
  return std::find(kModeNames.begin(), kModeNames.end(), name) != kModeNames.end();
}

// "expected one of scd, local".
inline std::string ModeNamesText() {
  std::string text = "expected one of ";
  for (std::size_t i = 0; i < kModeNames.size(); ++i) text.append(i == 0 ? "" : ", ").append(kModeNames[i]);
  return text;
}

}  // namespace scd

#endif  // SCD_CONSUMER_TRANSFER_MODE_NAMES_H_
