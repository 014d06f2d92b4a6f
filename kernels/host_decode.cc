#include <vector>

#include "kernels/checks.h"
#include "kernels/host_backend.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status HostBackend::DecodeManyIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                           ConstTensorView positions, absl::Span<const KvTarget> targets) {
  SCD_RETURN_IF_ERROR(CheckDecodeManyIntoKv(codes, decoder, positions, targets, device()));
  const PagedKv& kv = targets[0].kv;
  const std::int64_t tokens = codes.dim(0);
  const std::int64_t width = kv.k_pages.dim(1) * kv.k_pages.dim(3);
  std::vector<float> wide(static_cast<std::size_t>(codes.num_elements()));
  std::vector<float> numbers(static_cast<std::size_t>(tokens * width));
  const TensorView x(wide.data(), DType::kF32, codes.shape());
  const TensorView rows(numbers.data(), DType::kF32, {tokens, width});
  const TensorView heads = rows.Reshaped({tokens, kv.k_pages.dim(1), kv.k_pages.dim(3)});
  SCD_RETURN_IF_ERROR(Copy(stream, x, codes));
  std::int64_t column = 0;
  for (const KvTarget& target : targets) {
    SCD_RETURN_IF_ERROR(
        MatMul(stream, x, decoder, rows, {.accumulate = false, .columns = {column, column + width}}));
    column += width;
    if (target.rope != nullptr) SCD_RETURN_IF_ERROR(Rope(stream, heads, positions, *target.rope));
    const bool is_k = target.part == KvPart::kK;
    SCD_RETURN_IF_ERROR(
        WriteKv(stream, is_k ? heads : TensorView(), is_k ? TensorView() : heads, positions, target.kv));
  }
  return absl::OkStatus();
}

}  // namespace scd
