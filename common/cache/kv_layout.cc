#include "common/cache/kv_layout.h"

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;

// Whether the product of sizes that are all at least 1 stays within kMaxBytes.
bool ProductFits(std::initializer_list<std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size > kMaxBytes / product) return false;
    product *= size;
  }
  return true;
}

absl::Status CheckSize(absl::string_view field, std::int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("KV layout: ", field, " is ", value, ", expected at least 1"));
}

}  // namespace

absl::Status KvLayout::Validate() const {
  SCD_RETURN_IF_ERROR(CheckSize("num_layers", num_layers));
  SCD_RETURN_IF_ERROR(CheckSize("num_kv_heads", num_kv_heads));
  SCD_RETURN_IF_ERROR(CheckSize("head_dim", head_dim));
  SCD_RETURN_IF_ERROR(CheckSize("page_tokens", page_tokens));
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kI8) {
    return absl::InvalidArgumentError(absl::StrCat("KV layout: dtype is ", std::string(DTypeName(dtype)),
                                                   ", the attention kernels take f32, bf16 and i8"));
  }
  // A vector takes at most four bytes for each number, and four for its scale.
  if (head_dim >= kMaxBytes || !ProductFits({num_layers, 2, num_kv_heads, page_tokens, head_dim + 1, 4})) {
    return absl::InvalidArgumentError("KV layout: a page would be larger than any memory");
  }
  return absl::OkStatus();
}

std::int64_t KvLayout::page_bytes() const {
  const std::int64_t vector_bytes = head_dim * static_cast<std::int64_t>(DTypeBytes(dtype)) +
                                    (has_scales() ? static_cast<std::int64_t>(sizeof(float)) : 0);
  return num_layers * 2 * num_kv_heads * page_tokens * vector_bytes;
}

}  // namespace scd
