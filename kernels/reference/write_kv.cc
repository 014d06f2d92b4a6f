#include <vector>

#include "kernels/checks.h"
#include "kernels/reference/kv_vector.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status ReferenceBackend::WriteKv(Stream& /*stream*/, ConstTensorView k, ConstTensorView v,
                                       ConstTensorView positions, const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckWriteKv(k, v, positions, kv, device()));
  SCD_RETURN_IF_ERROR(CheckPositions("WriteKv", positions, kv));
  const std::int64_t head_dim = kv.k_pages.dim(3);
  for (std::int64_t t = 0; t < positions.dim(0); ++t) {
    const std::int64_t position = positions.as<std::int32_t>()[t];
    for (std::int64_t h = 0; h < kv.k_pages.dim(1); ++h) {
      if (!k.empty()) {
        reference::KvVector(kv, KvPart::kK, position, h).Store(k.row<float>(t) + h * head_dim);
      }
      if (!v.empty()) {
        reference::KvVector(kv, KvPart::kV, position, h).Store(v.row<float>(t) + h * head_dim);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::DecodeIntoKv(Stream& stream, ConstTensorView codes,
                                            const PackedWeight& decoder, KvPart part,
                                            ConstTensorView positions, const RopeTable* rope,
                                            const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckDecodeIntoKv(codes, decoder, positions, rope, kv, device()));
  SCD_RETURN_IF_ERROR(CheckPositions("DecodeIntoKv", positions, kv));
  const std::int64_t tokens = codes.dim(0);
  std::vector<float> wide_codes(static_cast<std::size_t>(codes.num_elements()));
  std::vector<float> numbers(static_cast<std::size_t>(tokens * decoder.out_features()));
  const TensorView x(wide_codes.data(), DType::kF32, codes.shape());
  const TensorView out(numbers.data(), DType::kF32, {tokens, decoder.out_features()});
  const TensorView heads = out.Reshaped({tokens, kv.k_pages.dim(1), kv.k_pages.dim(3)});
  SCD_RETURN_IF_ERROR(Copy(stream, x, codes));
  SCD_RETURN_IF_ERROR(MatMul(stream, x, decoder, out, {}));
  if (rope != nullptr) SCD_RETURN_IF_ERROR(Rope(stream, heads, positions, *rope));
  const bool is_k = part == KvPart::kK;
  return WriteKv(stream, is_k ? heads : TensorView(), is_k ? TensorView() : heads, positions, kv);
}

}  // namespace scd
