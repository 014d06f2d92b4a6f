#include "kernels/cpu/quantized_panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_panel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using PanelFloats = hn::CappedTag<float, 16>;
using PanelVec = hn::Vec<PanelFloats>;
using PanelWords = hn::RebindToSigned<PanelFloats>;
using PanelWord = hn::Vec<PanelWords>;

HWY_INLINE PanelVec LoadScales(const float* scales) {
  return hn::LoadU(PanelFloats(), scales);
}
HWY_INLINE PanelVec LoadScales(const hwy::float16_t* scales) {
  return hn::PromoteTo(PanelFloats(), hn::LoadU(hn::Rebind<hwy::float16_t, PanelFloats>(), scales));
}

HWY_INLINE void Put(PanelVec numbers, float* out) {
  hn::StoreU(numbers, PanelFloats(), out);
}

// To nearest, ties to even; the numbers are finite, so that none becomes another kind of number.
HWY_INLINE void Put(PanelVec numbers, std::uint16_t* out) {
  const hn::RebindToUnsigned<PanelFloats> words;
  const auto bits = hn::BitCast(words, numbers);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
  const hn::Rebind<std::uint16_t, PanelFloats> halves;
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(PanelWords(), rounded)), halves, out);
}

template <typename Out>
HWY_INLINE void PutRow(PanelWord values, PanelVec scale, PanelVec minimum, Out* out) {
  Put(hn::MulAdd(hn::ConvertTo(PanelFloats(), values), scale, minimum), out);
}

// The number of kBits that begins at bit kShift of each word.
template <int kBits, int kShift>
HWY_INLINE PanelWord Extract(PanelWord word) {
  if constexpr (kBits == 4) {
    return hn::And(hn::ShiftRight<kShift>(word), hn::Set(PanelWords(), 15));
  } else {
    return hn::ShiftRight<24>(hn::ShiftLeft<24 - kShift>(word));
  }
}

// Rows of one step, whose numbers begin at bit kShift of their bytes.
template <int kBits, int kShift, typename Out>
HWY_INLINE void PutStep(PanelWord word, PanelVec scale, PanelVec minimum, Out* out, std::int64_t stride) {
  PutRow(Extract<kBits, kShift>(word), scale, minimum, out);
  PutRow(Extract<kBits, kShift + 8>(word), scale, minimum, out + stride);
  PutRow(Extract<kBits, kShift + 16>(word), scale, minimum, out + 2 * stride);
  PutRow(Extract<kBits, kShift + 24>(word), scale, minimum, out + 3 * stride);
}

template <int kBits, typename Scale, typename Out>
HWY_INLINE void WidenBlock(const QuantizedBlocks& weights, const std::uint32_t* HWY_RESTRICT words,
                           const Scale* HWY_RESTRICT scales, Out* HWY_RESTRICT out, std::int64_t stride) {
  constexpr std::int64_t kLanes = hn::MaxLanes(PanelFloats());
  for (std::int64_t g = 0; g < weights.groups(); ++g) {
    for (std::int64_t lane = 0; lane < kBlockColumns; lane += kLanes) {
      const PanelVec scale = LoadScales(scales + lane);
      const PanelVec minimum =
          weights.has_minimums() ? LoadScales(scales + kBlockColumns + lane) : hn::Zero(PanelFloats());
      const std::uint32_t* group_words = words + lane;
      Out* to = out + lane;
      constexpr std::int64_t kStepsOfWord = 8 / kBits;
      for (std::int64_t step = 0; step < kGroupSteps; step += kStepsOfWord) {
        const PanelWord word =
            hn::BitCast(PanelWords(), hn::LoadU(hn::RebindToUnsigned<PanelWords>(), group_words));
        PutStep<kBits, 0>(word, scale, minimum, to, stride);
        if constexpr (kBits == 4) {
          PutStep<kBits, 4>(word, scale, minimum, to + kStepInputs * stride, stride);
        }
        group_words += kBlockColumns;
        to += kStepsOfWord * kStepInputs * stride;
      }
    }
    words += weights.words_of_group();
    scales += weights.scales_of_group();
    out += kWeightGroup * stride;
  }
}

template <typename Scale, typename Out>
HWY_INLINE void WidenScaled(const QuantizedBlocks& weights, std::int64_t block, const Scale* scales, Out* out,
                            std::int64_t stride) {
  if (weights.bits() == 4) {
    WidenBlock<4>(weights, weights.words(block), scales, out, stride);
  } else {
    WidenBlock<8>(weights, weights.words(block), scales, out, stride);
  }
}

template <typename Out>
HWY_INLINE void Widen(const QuantizedBlocks& weights, Range blocks, Out* panel) {
  const std::int64_t stride = (blocks.end - blocks.begin) * kBlockColumns;
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    Out* out = panel + (block - blocks.begin) * kBlockColumns;
    if (const float* wide = weights.wide_scales(block); wide != nullptr) {
      WidenScaled(weights, block, wide, out, stride);
    } else {
      WidenScaled(weights, block, weights.half_scales(block), out, stride);
    }
  }
}

void WidenToF32(const QuantizedBlocks& weights, Range blocks, float* panel) {
  Widen(weights, blocks, panel);
}

void WidenToBf16(const QuantizedBlocks& weights, Range blocks, std::uint16_t* panel) {
  Widen(weights, blocks, panel);
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(WidenToF32);
HWY_EXPORT(WidenToBf16);

void DequantizeBlocks(const QuantizedBlocks& weights, Range blocks, float* panel) {
  HWY_DYNAMIC_DISPATCH(WidenToF32)(weights, blocks, panel);
}

void DequantizeBlocks(const QuantizedBlocks& weights, Range blocks, std::uint16_t* panel) {
  HWY_DYNAMIC_DISPATCH(WidenToBf16)(weights, blocks, panel);
}

}  // namespace scd::cpu
#endif
