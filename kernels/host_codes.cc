// The ops of the host's backends for codes and sampling.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/checks.h"
#include "kernels/dtype.h"
#include "kernels/host_backend.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Rows of a view are beside each other for what packs and unpacks them.
void StoreRows(const std::vector<float>& rows, const TensorView& out) {
  for (std::int64_t r = 0; r < out.dim(0); ++r) {
    const float* const from = rows.data() + r * out.dim(1);
    if (out.dtype() == DType::kF32) {
      std::copy_n(from, out.dim(1), out.row<float>(r));
    } else {
      std::transform(from, from + out.dim(1), out.row<std::uint16_t>(r), FloatToBf16);
    }
  }
}

void TopOfRow(const float* logits, std::int64_t size, float temperature, std::int64_t k, float* values,
              std::int32_t* best, float* sums) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  const bool sortable = std::none_of(logits, logits + size, [](float logit) { return std::isnan(logit); });
  if (sortable) {
    std::partial_sort(ids.begin(), ids.begin() + k, ids.end(), [&](std::int32_t a, std::int32_t b) {
      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
  }
  for (std::int64_t i = 0; i < k; ++i) {
    best[i] = ids[static_cast<std::size_t>(i)];
    values[i] = logits[best[i]];
  }
  sums[0] = sums[1] = std::numeric_limits<float>::quiet_NaN();
  if (!sortable || !std::isfinite(values[0])) return;
  const double divisor = temperature > 0.0f ? temperature : 1.0;
  double plain = 0.0, tempered = 0.0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double below = double{logits[i]} - values[0];
    plain += std::exp(below);
    tempered += std::exp(below / divisor);
  }
  sums[0] = static_cast<float>(plain);
  sums[1] = static_cast<float>(tempered);
}

}  // namespace

absl::Status HostBackend::PackCodes(Stream& /*stream*/, ConstTensorView rows, const GroupedIntegers& layout,
                                    TensorView bytes) {
  SCD_RETURN_IF_ERROR(CheckPackCodes(rows, layout, bytes, device()));
  std::vector<float> beside;
  for (std::int64_t r = 0; r < rows.dim(0); ++r) {
    beside.insert(beside.end(), rows.row<float>(r), rows.row<float>(r) + rows.dim(1));
  }
  PackIntegers(layout, beside.data(), rows.dim(0), bytes.as<std::uint8_t>());
  return absl::OkStatus();
}

absl::Status HostBackend::UnpackCodes(Stream& /*stream*/, ConstTensorView bytes,
                                      const GroupedIntegers& layout, std::int64_t first_row, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckUnpackCodes(bytes, layout, first_row, out, device()));
  std::vector<float> rows(static_cast<std::size_t>(out.num_elements()));
  UnpackIntegers(layout, bytes.as<std::uint8_t>(), first_row, out.dim(0), rows.data());
  StoreRows(rows, out);
  return absl::OkStatus();
}

absl::Status HostBackend::TopLogits(Stream& /*stream*/, ConstTensorView logits, ConstTensorView temperatures,
                                    const TopLogitsOut& best) {
  SCD_RETURN_IF_ERROR(CheckTopLogits(logits, temperatures, best, device()));
  for (std::int64_t r = 0; r < logits.dim(0); ++r) {
    TopOfRow(logits.row<float>(r), logits.dim(1), temperatures.as<float>()[r], best.values.dim(1),
             best.values.row<float>(r), best.ids.row<std::int32_t>(r), best.sums.row<float>(r));
  }
  return absl::OkStatus();
}

}  // namespace scd
