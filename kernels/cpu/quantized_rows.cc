#include "kernels/cpu/quantized_rows.h"

#include <limits>

#include "kernels/quantized_matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace scd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void QuantizeRow(const float* HWY_RESTRICT x, std::int64_t num_groups, std::int8_t* HWY_RESTRICT values,
                 RowGroup* HWY_RESTRICT groups) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::Rebind<std::int8_t, decltype(d)> d8;
  constexpr std::int64_t kLanes = hn::MaxLanes(d);
  constexpr float kMax = 127.0f;
  // Below it the inverse would be infinite.
  constexpr float kSmallest = kMax * std::numeric_limits<float>::min();
  for (std::int64_t g = 0; g < num_groups; ++g, x += kWeightGroup, values += kWeightGroup) {
    auto largest = hn::Zero(d);
    // 0, or not a number where an element is not finite.
    auto flaw = hn::Zero(d);
    for (std::int64_t i = 0; i < kWeightGroup; i += kLanes) {
      const auto part = hn::LoadU(d, x + i);
      largest = hn::Max(largest, hn::Abs(part));
      flaw = hn::MulAdd(part, hn::Zero(d), flaw);
    }
    const float magnitude = hn::GetLane(hn::MaxOfLanes(d, largest));
    const auto inverse = hn::Set(d, magnitude > kSmallest ? kMax / magnitude : 0.0f);
    auto sums = hn::Zero(d32);
    for (std::int64_t i = 0; i < kWeightGroup; i += kLanes) {
      const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse));
      sums = hn::Add(sums, rounded);
      hn::StoreU(hn::DemoteTo(d8, rounded), d8, values + i);
    }
    RowGroup& group = groups[g];
    group.scale = magnitude / kMax + hn::GetLane(hn::SumOfLanes(d, flaw));
    group.values_sum = hn::GetLane(hn::SumOfLanes(d32, sums));
    group.sum = group.scale * static_cast<float>(group.values_sum);
  }
}

}  // namespace scd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scd::cpu {

HWY_EXPORT(QuantizeRow);

QuantizedRows::QuantizedRows(const ConstTensorView& x)
    : rows_(x.dim(0)),
      depth_(x.dim(1)),
      num_groups_(depth_ / kWeightGroup),
      values_(hwy::AllocateAligned<std::int8_t>(static_cast<std::size_t>(rows_ * depth_))),
      groups_(hwy::AllocateAligned<RowGroup>(static_cast<std::size_t>(rows_ * num_groups_))) {
  if (!valid()) return;
  for (std::int64_t r = 0; r < rows_; ++r) {
    HWY_DYNAMIC_DISPATCH(QuantizeRow)
    (x.row<float>(r), num_groups_, values_.get() + r * depth_, groups_.get() + r * num_groups_);
  }
}

}  // namespace scd::cpu
#endif
