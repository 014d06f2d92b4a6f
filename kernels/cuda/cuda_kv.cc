// What the cuda backend writes into pages.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/bad_operand.h"
#include "kernels/checks.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/kv_store.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/view_rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using cuda::ToStatus;

// Of the scratch memory, for rows between a product and their pages.
constexpr std::size_t kRowsShare = 2;

cuda::PagesOut PagesOf(const PagedKv& kv, KvPart part) {
  const TensorView& pages = part == KvPart::kK ? kv.k_pages : kv.v_pages;
  cuda::PagesOut out{.pages = pages.data(),
                     .dtype = pages.dtype(),
                     .page_stride = pages.stride(0),
                     .num_pages = pages.dim(0),
                     .kv_heads = pages.dim(1),
                     .page_tokens = pages.dim(2),
                     .head_dim = pages.dim(3)};
  if (pages.dtype() != DType::kI8) return out;
  const TensorView& scales = part == KvPart::kK ? kv.k_scales : kv.v_scales;
  out.scales = scales.as<float>();
  out.scale_stride = scales.stride(0);
  return out;
}

cuda::StoreVectors Source(const ConstTensorView& vectors, const ConstTensorView& positions,
                          const PagedKv& kv) {
  return {.vectors = cuda::RowsOf(vectors),
          .tokens = vectors.dim(0),
          .positions = positions.as<std::int32_t>(),
          .block_table = kv.block_table.as<std::int32_t>(),
          .block_table_size = kv.block_table.dim(0)};
}

}  // namespace

absl::Status CudaBackend::WriteKv(Stream& stream, ConstTensorView k, ConstTensorView v,
                                  ConstTensorView positions, const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckWriteKv(k, v, positions, kv, device()));
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  for (const KvPart part : {KvPart::kK, KvPart::kV}) {
    const ConstTensorView& vectors = part == KvPart::kK ? k : v;
    if (vectors.empty()) continue;
    SCD_RETURN_IF_ERROR(
        ToStatus("WriteKv", cuda::LaunchStoreVectors(own->get(), Source(vectors, positions, kv),
                                                     PagesOf(kv, part), own->bad_index())));
  }
  return absl::OkStatus();
}

absl::Status CudaBackend::DecodeIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                       KvPart part, ConstTensorView positions, const RopeTable* rope,
                                       const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckDecodeIntoKv(codes, decoder, positions, rope, kv, device()));
  const KvTarget target{.part = part, .rope = rope, .kv = kv};
  return DecodeInto("DecodeIntoKv", stream, codes, decoder, positions, absl::MakeConstSpan(&target, 1));
}

absl::Status CudaBackend::DecodeManyIntoKv(Stream& stream, ConstTensorView codes, const PackedWeight& decoder,
                                           ConstTensorView positions, absl::Span<const KvTarget> targets) {
  SCD_RETURN_IF_ERROR(CheckDecodeManyIntoKv(codes, decoder, positions, targets, device()));
  return DecodeInto("DecodeManyIntoKv", stream, codes, decoder, positions, targets);
}

// The product goes through scratch memory, mostly the second cache: the library's tensor core product and one
// kernel for all that follows cost less than a product of our own fused with it.
absl::Status CudaBackend::DecodeInto(std::string_view op, Stream& stream, ConstTensorView codes,
                                     const PackedWeight& decoder, ConstTensorView positions,
                                     absl::Span<const KvTarget> targets) {
  const auto* weight = dynamic_cast<const cuda::CudaWeight*>(&decoder);
  if (weight == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(Text(op), ": decoder was packed by another backend"));
  }
  SCD_ASSIGN_OR_RETURN(cuda::CudaStream * own, Use(stream));
  if (codes.dim(0) == 0) return absl::OkStatus();
  const std::int64_t width = decoder.out_features();
  const std::int64_t each = width / static_cast<std::int64_t>(targets.size());
  cuda::Scratch scratch(*own);
  const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(float);
  const auto fit = static_cast<std::int64_t>(scratch.left() / kRowsShare / row_bytes);
  const std::int64_t piece = std::clamp(fit, std::int64_t{1}, codes.dim(0));
  SCD_ASSIGN_OR_RETURN(void* memory, scratch.Take(static_cast<std::size_t>(piece) * row_bytes));
  for (std::int64_t token = 0; token < codes.dim(0); token += piece) {
    const std::int64_t count = std::min(piece, codes.dim(0) - token);
    const TensorView rows(memory, DType::kF32, {count, width}, device());
    cuda::Scratch rest = scratch;
    SCD_RETURN_IF_ERROR(cuda::Multiply(*library_, *own, rest,
                                       {.x = codes.rows(token, count),
                                        .weight = weight,
                                        .columns = {0, width},
                                        .out = rows,
                                        .with_bias = false}));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const KvTarget& target = targets[i];
      const std::int64_t column = each * static_cast<std::int64_t>(i);
      cuda::StoreVectors source = Source(rows.columns(column, each), positions.rows(token, count), target.kv);
      if (weight->bias() != nullptr) source.bias = weight->bias() + column;
      if (target.rope != nullptr) source.rope = cuda::RopeRowsOf(*target.rope);
      source.positions_operand = cuda::IndexOperand::kDecodeIntoKvPositions;
      source.block_table_operand = cuda::IndexOperand::kDecodeIntoKvBlockTable;
      SCD_RETURN_IF_ERROR(ToStatus(
          op,
          cuda::LaunchStoreVectors(own->get(), source, PagesOf(target.kv, target.part), own->bad_index())));
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
