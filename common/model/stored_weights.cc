#include "common/model/stored_weights.h"

#include "absl/strings/str_cat.h"
#include "common/io/finite.h"

namespace scd {

absl::Status CheckFinite(const ConstTensorView& view, absl::string_view file, absl::string_view tensor) {
  const std::size_t bytes = static_cast<std::size_t>(view.num_elements()) * DTypeBytes(view.dtype());
  if (AllFinite(view.dtype(), {static_cast<const std::byte*>(view.data()), bytes})) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", tensor, ": holds a number that is NaN or infinite"));
}

}  // namespace scd
