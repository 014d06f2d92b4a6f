// How a check says that an operand is not what its op takes.
#ifndef SCD_KERNELS_BAD_OPERAND_H_
#define SCD_KERNELS_BAD_OPERAND_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace scd {

// Abseil's string functions take its own string_view, which need not be the standard one.
inline absl::string_view Text(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

// INVALID_ARGUMENT "op: operand parts".
template <typename... Parts>
absl::Status Bad(std::string_view op, std::string_view operand, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(Text(op), ": ", Text(operand), " ", parts...));
}

}  // namespace scd

#endif  // SCD_KERNELS_BAD_OPERAND_H_
