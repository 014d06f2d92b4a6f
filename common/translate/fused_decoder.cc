#include "common/translate/fused_decoder.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/memory/memory.h"
#include "common/config/codec.h"
#include "kernels/status_macros.h"
#include "kernels/weight_part.h"

namespace scd {
namespace {

// [rows, window rank] with this token's columns first -> the same with the oldest token's first.
std::vector<float> OldestFirst(const ConstTensorView& mlp_in, std::int64_t rank) {
  const std::int64_t width = mlp_in.dim(1);
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(mlp_in.num_elements()));
  for (std::int64_t r = 0; r < mlp_in.dim(0); ++r) {
    const float* const row = mlp_in.row<float>(r);
    for (std::int64_t begin = width - rank; begin >= 0; begin -= rank) {
      out.insert(out.end(), row + begin, row + begin + rank);
    }
  }
  return out;
}

// [left | right], row by row.
std::vector<float> Beside(const ConstTensorView& left, const ConstTensorView& right) {
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(left.num_elements() + right.num_elements()));
  for (std::int64_t r = 0; r < left.dim(0); ++r) {
    out.insert(out.end(), left.row<float>(r), left.row<float>(r) + left.dim(1));
    out.insert(out.end(), right.row<float>(r), right.row<float>(r) + right.dim(1));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FusedDecoder>> FusedDecoder::Create(const FusedTranslator& translator,
                                                                   Backend& backend) {
  auto decoder = absl::WrapUnique(new FusedDecoder(backend));
  decoder->rank_ = translator.decoder.dim(1);
  decoder->window_ = translator.mlp_in.dim(1) / decoder->rank_;
  decoder->mlp_width_ = translator.mlp_in.dim(0);
  const std::int64_t out = translator.decoder.dim(0);
  const std::int64_t d_kv = out / 2;

  const std::vector<float> mlp_in = OldestFirst(translator.mlp_in, decoder->rank_);
  const std::vector<float> maps = Beside(translator.decoder, translator.mlp_out);
  std::vector<float> bias(translator.decoder_bias.as<float>(), translator.decoder_bias.as<float>() + out);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] += translator.mlp_out_bias.as<float>()[i];
  SCD_ASSIGN_OR_RETURN(decoder->mlp_in_, backend.PackWeight(ConstTensorView(mlp_in.data(), DType::kF32,
                                                                            translator.mlp_in.shape()),
                                                            translator.mlp_in_bias));
  SCD_ASSIGN_OR_RETURN(
      decoder->out_,
      backend.PackWeight(
          ConstTensorView(maps.data(), DType::kF32, Shape{out, decoder->rank_ + decoder->mlp_width_}),
          ConstTensorView(bias.data(), DType::kF32, Shape{out}), {.cuts = absl::MakeConstSpan(&d_kv, 1)}));

  if (decoder->window_ > 1) {
    const Shape shape{decoder->window_ - 1, decoder->rank_};
    const std::vector<float> zeros(static_cast<std::size_t>(shape.num_elements()), 0.0f);
    SCD_ASSIGN_OR_RETURN(decoder->zeros_,
                         backend.Allocate(MemoryKind::kDevice, zeros.size() * sizeof(float)));
    SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, backend.CreateStream());
    SCD_RETURN_IF_ERROR(backend.Copy(*stream, decoder->zeros_->View(DType::kF32, shape),
                                     ConstTensorView(zeros.data(), DType::kF32, shape)));
    SCD_RETURN_IF_ERROR(backend.Synchronize(*stream));
  }
  return decoder;
}

absl::Status FusedDecoder::FillWindow(Stream& stream, const ConstTensorView& codes,
                                      const TensorView& work) const {
  const std::int64_t tokens = codes.dim(0);
  for (std::int64_t back = 0; back < window_; ++back) {
    const TensorView columns = work.columns((window_ - 1 - back) * rank_, rank_);
    if (tokens > back) {
      SCD_RETURN_IF_ERROR(
          backend_.Copy(stream, columns.rows(back, tokens - back), codes.rows(0, tokens - back)));
    }
    if (back == 0) continue;
    for (std::int64_t begin = 0; begin < tokens; begin += kFusedGranule) {
      const std::int64_t count = std::min(back, tokens - begin);
      SCD_RETURN_IF_ERROR(
          backend_.Copy(stream, columns.rows(begin, count), zeros_->View(DType::kF32, Shape{count, rank_})));
    }
  }
  return absl::OkStatus();
}

absl::Status FusedDecoder::Decode(Stream& stream, ConstTensorView codes, TensorView work, TensorView k,
                                  TensorView v) const {
  SCD_RETURN_IF_ERROR(FillWindow(stream, codes, work));
  const TensorView inner = work.columns(window_ * rank_, mlp_width_);
  SCD_RETURN_IF_ERROR(backend_.MatMul(stream, work.columns(0, window_ * rank_), *mlp_in_, inner));
  SCD_RETURN_IF_ERROR(backend_.Silu(stream, inner));
  const std::int64_t d_kv = k.dim(1);
  return MultiplyParts(backend_, stream, work.columns((window_ - 1) * rank_, rank_ + mlp_width_),
                       {.weight = out_.get(), .columns = {0, d_kv}}, k,
                       {.weight = out_.get(), .columns = {d_kv, 2 * d_kv}}, v);
}

}  // namespace scd
