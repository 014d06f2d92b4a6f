// Abseil's string view from the standard one: a type of its own where Abseil was built for C++14 (Debian 12).
#ifndef SCD_COMMON_MODEL_STRING_VIEWS_H_
#define SCD_COMMON_MODEL_STRING_VIEWS_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace scd {

inline absl::string_view ToAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}
inline std::string_view ToStd(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

}  // namespace scd

#endif  // SCD_COMMON_MODEL_STRING_VIEWS_H_
