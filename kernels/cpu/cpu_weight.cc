#include "kernels/cpu/cpu_weight.h"

#include <algorithm>

namespace scd::cpu {

absl::Status CpuWeight::SetBias(const ConstTensorView& bias) {
  if (bias.empty()) return absl::OkStatus();
  bias_ = hwy::AllocateAligned<float>(static_cast<std::size_t>(out_features_));
  if (bias_ == nullptr) return absl::ResourceExhaustedError("no memory for the bias of a packed weight");
  std::copy_n(bias.as<float>(), out_features_, bias_.get());
  return absl::OkStatus();
}

bool CpuWeight::ApplyBias(const TensorView& out, Range columns, bool accumulate) const {
  if (bias_ == nullptr) return accumulate;
  const float* bias_of_columns = bias(columns.begin);
  for (std::int64_t r = 0; r < out.dim(0); ++r) {
    float* row = out.row<float>(r);
    if (accumulate) {
      for (std::int64_t i = 0; i < columns.end - columns.begin; ++i) row[i] += bias_of_columns[i];
    } else {
      std::copy_n(bias_of_columns, columns.end - columns.begin, row);
    }
  }
  return true;
}

const float* CpuWeight::Panels() const {
  std::call_once(panels_asked_for_, [this] { panels_ = MakePanels(); });
  return panels_.get();
}

hwy::AlignedFreeUniquePtr<float[]> CpuWeight::MakePanels() const {
  const std::int64_t columns = Partition::RoundUp(out_features_, kPanelColumns);
  auto panels = hwy::AllocateAligned<float>(static_cast<std::size_t>(columns * in_features_));
  auto row = hwy::AllocateAligned<float>(static_cast<std::size_t>(in_features_));
  if (panels == nullptr || row == nullptr) return nullptr;
  for (std::int64_t c = 0; c < columns; ++c) {
    if (c >= out_features_) {
      std::fill_n(row.get(), in_features_, 0.0f);
    } else if (!UnpackRow(c, row.get())) {
      return nullptr;
    }
    float* panel = panels.get() + c / kPanelColumns * kPanelColumns * in_features_ + c % kPanelColumns;
    for (std::int64_t k = 0; k < in_features_; ++k) {
      panel[k * kPanelColumns] = row[static_cast<std::size_t>(k)];
    }
  }
  return panels;
}

}  // namespace scd::cpu
