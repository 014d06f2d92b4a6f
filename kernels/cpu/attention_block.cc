#include "kernels/cpu/attention_block.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention_state.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_block.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h, as they hold per-target code.
#include "kernels/cpu/attention_dots-inl.h"
#include "kernels/cpu/attention_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Attention>
void RunAs(const AttentionBlock& block, Range positions, float* state, float* scratch) {
  Attention attention(block, state, scratch);
  switch (block.kv->k_pages.dtype()) {
    case DType::kBF16:
      return attention.template Run<std::uint16_t>(positions);
    case DType::kI8:
      return attention.template Run<std::int8_t>(positions);
    default:
      return attention.template Run<float>(positions);
  }
}

void Attend(const AttentionBlock& block, Range positions, float* state, float* scratch) {
  if (block.has_few_vectors()) return RunAs<DotAttention>(block, positions, state, scratch);
  RunAs<PanelAttention>(block, positions, state, scratch);
}

std::size_t ScratchFloats(const AttentionBlock& block) {
  const AttentionShape shape(block);
  return block.has_few_vectors() ? DotAttention::ScratchFloats(shape) : PanelAttention::ScratchFloats(shape);
}

// out[0..head_dim) (+)= sums * factor
void AddScaled(const float* HWY_RESTRICT sums, float factor, std::int64_t head_dim, bool accumulate,
               float* HWY_RESTRICT out) {
  const WideFloats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  std::int64_t j = 0;
  for (; j + lanes <= head_dim; j += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, sums + j), factors);
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, out + j), scaled) : scaled, d, out + j);
  }
  for (; j < head_dim; ++j) out[j] = (accumulate ? out[j] : 0.0f) + sums[j] * factor;
}

void Join(const AttentionBlock& block, const float* states, std::int64_t stride, std::int64_t count) {
  const AttentionShape shape(block);
  for (std::int64_t i = 0; i < shape.vectors; ++i) {
    float largest = kNothingYet;
    for (std::int64_t s = 0; s < count; ++s) {
      largest = std::max(largest, AttentionState(shape, states + s * stride).largest[i]);
    }
    float total = 0.0f;
    for (std::int64_t s = 0; s < count; ++s) {
      const AttentionState state(shape, states + s * stride);
      total += state.total[i] * std::exp2(state.largest[i] - largest);
    }
    float* out = block.out + VectorOffset(block, i, block.out_stride);
    for (std::int64_t s = 0; s < count; ++s) {
      const AttentionState state(shape, states + s * stride);
      const float factor = std::exp2(state.largest[i] - largest) / total;
      AddScaled(state.sums + i * state.stride, factor, shape.head_dim, s > 0, out);
    }
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(Attend);
HWY_EXPORT(Join);
HWY_EXPORT(ScratchFloats);

Range AttentionBlock::positions() const {
  const std::int64_t begin =
      sliding_window == 0 ? 0 : std::max<std::int64_t>(0, first_position - sliding_window + 1);
  return {begin, first_position + rows};
}

std::size_t AttentionStateFloats(const AttentionBlock& block) {
  return AttentionState<float>::Floats(AttentionShape(block));
}

std::size_t AttentionScratchFloats(const AttentionBlock& block) {
  return HWY_DYNAMIC_DISPATCH(ScratchFloats)(block);
}

void AttendStretch(const AttentionBlock& block, Range positions, float* state, float* scratch) {
  HWY_DYNAMIC_DISPATCH(Attend)(block, positions, state, scratch);
}

void JoinStretches(const AttentionBlock& block, const float* states, std::int64_t stride,
                   std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Join)(block, states, stride, count);
}

}  // namespace scd::cpu
#endif
