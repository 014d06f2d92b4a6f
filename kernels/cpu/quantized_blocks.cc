#include "kernels/cpu/quantized_blocks.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/dtype.h"
#include "kernels/status_macros.h"

namespace scd::cpu {
namespace {

bool HaveSixteenBits(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](float number) { return F16ToFloat(FloatToF16(number)) == number; });
}

}  // namespace

absl::StatusOr<QuantizedBlocks> QuantizedBlocks::Create(const QuantizedMatrix& matrix,
                                                        absl::Span<const std::int64_t> cuts) {
  QuantizedBlocks blocks;
  blocks.bits_ = matrix.bits;
  blocks.has_minimums_ = !matrix.minimums.empty();
  blocks.groups_ = matrix.in_features / kWeightGroup;
  std::vector<std::int64_t> ends(cuts.begin(), cuts.end());
  ends.push_back(matrix.out_features);
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    for (; begin < end; begin = std::min(end, begin + kBlockColumns)) {
      blocks.columns_.push_back({begin, std::min(end, begin + kBlockColumns)});
    }
  }
  SCD_RETURN_IF_ERROR(blocks.AllocateFor(matrix));
  for (std::size_t block = 0; block < blocks.columns_.size(); ++block) {
    const std::int64_t columns = blocks.columns_[block].end - blocks.columns_[block].begin;
    for (std::int64_t lane = 0; lane < columns; ++lane) {
      for (std::int64_t group = 0; group < blocks.groups_; ++group) {
        blocks.PutGroup(matrix, static_cast<std::int64_t>(block), lane, group);
      }
    }
  }
  return blocks;
}

Range QuantizedBlocks::BlocksOf(Range columns) const {
  const auto first_from = [&](std::int64_t column) {
    return std::lower_bound(columns_.begin(), columns_.end(), column,
                            [](const Range& block, std::int64_t value) { return block.begin < value; }) -
           columns_.begin();
  };
  return {first_from(columns.begin), first_from(columns.end)};
}

std::int64_t QuantizedBlocks::size_bytes() const {
  const std::size_t scale_bytes = half_scales_ != nullptr ? sizeof(hwy::float16_t) : sizeof(float);
  return static_cast<std::int64_t>(columns_.size()) * groups_ *
         (words_of_group() * static_cast<std::int64_t>(sizeof(std::uint32_t)) +
          scales_of_group() * static_cast<std::int64_t>(scale_bytes));
}

absl::Status QuantizedBlocks::AllocateFor(const QuantizedMatrix& matrix) {
  const std::int64_t num_groups = static_cast<std::int64_t>(columns_.size()) * groups_;
  const auto num_words = static_cast<std::size_t>(num_groups * words_of_group());
  const auto num_scales = static_cast<std::size_t>(num_groups * scales_of_group());
  words_ = hwy::AllocateAligned<std::uint32_t>(num_words);
  const bool halves = HaveSixteenBits(matrix.scales) && HaveSixteenBits(matrix.minimums);
  if (halves) {
    half_scales_ = hwy::AllocateAligned<hwy::float16_t>(num_scales);
  } else {
    wide_scales_ = hwy::AllocateAligned<float>(num_scales);
  }
  if (words_ == nullptr || (half_scales_ == nullptr && wide_scales_ == nullptr)) {
    return absl::ResourceExhaustedError("no memory for a packed weight");
  }
  std::fill_n(words_.get(), num_words, 0);
  for (std::size_t i = 0; i < num_scales; ++i) PutScale(static_cast<std::int64_t>(i), 0.0f);
  return absl::OkStatus();
}

void QuantizedBlocks::PutGroup(const QuantizedMatrix& matrix, std::int64_t block, std::int64_t lane,
                               std::int64_t group) {
  const std::int64_t column = columns_[static_cast<std::size_t>(block)].begin + lane;
  const std::int64_t source = column * groups_ + group;
  const std::int8_t* values = matrix.values.data() + source * kWeightGroup;
  std::uint32_t* words = words_.get() + (block * groups_ + group) * words_of_group() + lane;
  for (std::int64_t step = 0; step < kGroupSteps; ++step) {
    const std::int8_t* of_step = values + step * kStepInputs;
    std::uint32_t word = 0;
    for (int i = 0; i < kStepInputs; ++i) {
      word |= std::uint32_t{static_cast<std::uint8_t>(of_step[i])} << (8 * i);
    }
    if (bits_ == 8) {
      words[step * kBlockColumns] = word;
    } else {
      words[step / 2 * kBlockColumns] |= word << (step % 2 * 4);
    }
  }
  const std::int64_t scale = (block * groups_ + group) * scales_of_group() + lane;
  PutScale(scale, matrix.scales[static_cast<std::size_t>(source)]);
  if (has_minimums_) PutScale(scale + kBlockColumns, matrix.minimums[static_cast<std::size_t>(source)]);
}

void QuantizedBlocks::PutScale(std::int64_t index, float scale) {
  if (wide_scales_ != nullptr) {
    wide_scales_.get()[index] = scale;
  } else {
    const std::uint16_t half = FloatToF16(scale);
    std::memcpy(half_scales_.get() + index, &half, sizeof(half));
  }
}

}  // namespace scd::cpu
