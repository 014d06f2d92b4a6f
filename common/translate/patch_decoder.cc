#include "common/translate/patch_decoder.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/memory/memory.h"
#include "kernels/status_macros.h"
#include "kernels/weight_part.h"

namespace scd {
namespace {

// Maps go through the projection as rows, beside its bias, which is taken off again. Made larger by this
// power of two (exactly) they keep their digits beside a bias of any usual size.
constexpr float kMapScale = 1024.0f;
// Products of few rows may round their operand where the weight is quantised; so many rows do not.
constexpr std::int64_t kExactRows = 256;

// Rows of [rows, hidden] that the projection is applied to: first 0, then the constant part of the aligner,
// then every column of D and of M_out; zeros to kExactRows.
std::vector<float> RowsToProject(const PatchTranslator& t) {
  const std::int64_t hidden = t.decoder.dim(0);
  const std::int64_t rank = t.decoder.dim(1);
  const std::int64_t width = t.mlp_out.dim(1);
  const std::int64_t num_rows = std::max(kExactRows, 2 + rank + width);
  std::vector<float> rows(static_cast<std::size_t>(num_rows * hidden));
  float* const constant = rows.data() + hidden;
  float* const columns = constant + hidden;
  for (std::int64_t h = 0; h < hidden; ++h) {
    constant[h] = t.decoder_bias.as<float>()[h] + t.mlp_out_bias.as<float>()[h];
    for (std::int64_t r = 0; r < rank; ++r) columns[r * hidden + h] = kMapScale * t.decoder.row<float>(h)[r];
    for (std::int64_t w = 0; w < width; ++w) {
      columns[(rank + w) * hidden + h] = kMapScale * t.mlp_out.row<float>(h)[w];
    }
  }
  return rows;
}

// rows [n, hidden] on the host -> what W_k and W_v (with their biases) make of them, [n, 2 d_kv] on the host.
absl::StatusOr<std::vector<float>> Project(Backend& backend, const KvProjection& projection,
                                           const std::vector<float>& rows, std::int64_t hidden) {
  const std::int64_t count = static_cast<std::int64_t>(rows.size()) / hidden;
  const std::int64_t d_kv = projection.k.width();
  const Shape in_shape{count, hidden};
  const Shape out_shape{count, 2 * d_kv};
  std::vector<float> out(static_cast<std::size_t>(out_shape.num_elements()));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream());
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> in_memory,
                       backend.Allocate(MemoryKind::kDevice, rows.size() * sizeof(float)));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> out_memory,
                       backend.Allocate(MemoryKind::kDevice, out.size() * sizeof(float)));
  const TensorView device_in = in_memory->View(DType::kF32, in_shape);
  const TensorView device_out = out_memory->View(DType::kF32, out_shape);
  SCD_RETURN_IF_ERROR(backend.Copy(*stream, device_in, ConstTensorView(rows.data(), DType::kF32, in_shape)));
  SCD_RETURN_IF_ERROR(MultiplyParts(backend, *stream, device_in, projection.k, device_out.columns(0, d_kv),
                                    projection.v, device_out.columns(d_kv, d_kv)));
  SCD_RETURN_IF_ERROR(backend.Copy(*stream, TensorView(out.data(), DType::kF32, out_shape), device_out));
  SCD_RETURN_IF_ERROR(backend.Synchronize(*stream));
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PatchDecoder>> PatchDecoder::Create(const PatchTranslator& translator,
                                                                   const KvProjection& projection,
                                                                   Backend& backend) {
  const std::int64_t rank = translator.decoder.dim(1);
  const std::int64_t inner = rank + translator.mlp_in.dim(0);
  const std::int64_t d_kv = projection.k.width();
  SCD_ASSIGN_OR_RETURN(const std::vector<float> projected,
                       Project(backend, projection, RowsToProject(translator), translator.decoder.dim(0)));
  const float* const bias = projected.data();
  const float* const constant = bias + 2 * d_kv;
  const float* const maps = constant + 2 * d_kv;  // [inner, 2 d_kv]
  std::vector<float> folded(static_cast<std::size_t>(2 * d_kv * inner));
  for (std::int64_t o = 0; o < 2 * d_kv; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      folded[static_cast<std::size_t>(o * inner + i)] = (maps[i * 2 * d_kv + o] - bias[o]) / kMapScale;
    }
  }

  auto decoder = absl::WrapUnique(new PatchDecoder(projection, backend));
  decoder->work_width_ = inner;
  SCD_ASSIGN_OR_RETURN(decoder->mlp_in_, backend.PackWeight(translator.mlp_in, translator.mlp_in_bias));
  SCD_ASSIGN_OR_RETURN(decoder->folded_,
                       backend.PackWeight(ConstTensorView(folded.data(), DType::kF32, Shape{2 * d_kv, inner}),
                                          ConstTensorView(constant, DType::kF32, Shape{2 * d_kv}),
                                          {.cuts = absl::MakeConstSpan(&d_kv, 1)}));
  return decoder;
}

absl::Status PatchDecoder::Decode(Stream& stream, ConstTensorView codes, TensorView work, TensorView k,
                                  TensorView v) const {
  const std::int64_t rank = codes.dim(1);
  const TensorView inner = work.columns(rank, work_width_ - rank);
  SCD_RETURN_IF_ERROR(backend_.Copy(stream, work.columns(0, rank), codes));
  SCD_RETURN_IF_ERROR(backend_.MatMul(stream, codes, *mlp_in_, inner));
  SCD_RETURN_IF_ERROR(backend_.Silu(stream, inner));
  const std::int64_t d_kv = k.dim(1);
  SCD_RETURN_IF_ERROR(MultiplyParts(backend_, stream, work, {.weight = folded_.get(), .columns = {0, d_kv}},
                                    k, {.weight = folded_.get(), .columns = {d_kv, 2 * d_kv}}, v));
  return NormHeads(backend_, stream, k, head_dim_, k_norm_, norm_epsilon_);
}

}  // namespace scd
