#include "common/wire/payload_format.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/io/finite.h"

namespace scd {

absl::Status CheckPayload(DType dtype, std::int64_t num_tokens, std::int64_t rank,
                          absl::string_view payload) {
  const auto elements = static_cast<std::uint64_t>(num_tokens) * static_cast<std::uint64_t>(rank);
  // In elements: their number is under 2^62, so that neither side overflows.
  if (payload.size() % DTypeBytes(dtype) != 0 || payload.size() / DTypeBytes(dtype) != elements) {
    return absl::InvalidArgumentError(absl::StrCat("payload: has ", payload.size(), " bytes, not what ",
                                                   num_tokens, " tokens at rank ", rank, " in ",
                                                   std::string(DTypeName(dtype)), " take"));
  }
  if (!AllFinite(dtype, {reinterpret_cast<const std::byte*>(payload.data()), payload.size()})) {
    return absl::DataLossError("payload: holds a number that is not finite");
  }
  return absl::OkStatus();
}

}  // namespace scd
