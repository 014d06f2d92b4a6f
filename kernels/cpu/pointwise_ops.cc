// The pointwise ops of the cpu backend: checks, then rows shared out over the pool.
#include <algorithm>

#include "kernels/checks.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// A view of any rank as [rows, width]: all dimensions but the first are contiguous, and a vector is a single
// row.
template <typename View>
View AsRows(const View& view) {
  if (view.rank() < 2) return View(view.data(), view.dtype(), {1, view.num_elements()}, view.device());
  const std::int64_t width = view.num_elements() / view.dim(0);
  const std::int64_t stride = std::max(view.stride(0), width);
  return View(view.data(), view.dtype(), {view.dim(0), stride}, view.device()).columns(0, width);
}

}  // namespace

absl::Status CpuBackend::RmsNorm(Stream& /*stream*/, ConstTensorView x, ConstTensorView weight, float epsilon,
                                 TensorView out) {
  SCD_RETURN_IF_ERROR(CheckRmsNorm(x, weight, epsilon, out, device()));
  cpu::ForEachRowRange(*pool_, x.dim(0), x.dim(1),
                       [&](cpu::Range rows) { cpu::RmsNormRows(x, weight.as<float>(), epsilon, out, rows); });
  return absl::OkStatus();
}

absl::Status CpuBackend::Rope(Stream& /*stream*/, TensorView x, ConstTensorView positions,
                              const RopeTable& table) {
  SCD_RETURN_IF_ERROR(CheckRope(x, positions, table, device()));
  SCD_RETURN_IF_ERROR(CheckIndices("Rope", "positions", positions, table.cos.dim(0)));
  cpu::ForEachRowRange(*pool_, x.dim(0), x.dim(1) * x.dim(2), [&](cpu::Range tokens) {
    cpu::RopeTokens(x, positions.as<std::int32_t>(), table, tokens);
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::SwiGlu(Stream& /*stream*/, ConstTensorView gate, ConstTensorView up,
                                TensorView out) {
  SCD_RETURN_IF_ERROR(CheckSwiGlu(gate, up, out, device()));
  cpu::ForEachRowRange(*pool_, gate.dim(0), gate.dim(1),
                       [&](cpu::Range rows) { cpu::SwiGluRows(gate, up, out, rows); });
  return absl::OkStatus();
}

absl::Status CpuBackend::Silu(Stream& /*stream*/, TensorView x) {
  SCD_RETURN_IF_ERROR(CheckSilu(x, device()));
  cpu::ForEachRowRange(*pool_, x.dim(0), x.dim(1), [&](cpu::Range rows) { cpu::SiluRows(x, rows); });
  return absl::OkStatus();
}

absl::Status CpuBackend::Embed(Stream& /*stream*/, ConstTensorView table, ConstTensorView ids,
                               TensorView out) {
  SCD_RETURN_IF_ERROR(CheckEmbed(table, ids, out, device()));
  SCD_RETURN_IF_ERROR(CheckIndices("Embed", "ids", ids, table.dim(0)));
  cpu::ForEachRowRange(*pool_, ids.dim(0), table.dim(1), [&](cpu::Range tokens) {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      cpu::ConvertRows(table.rows(ids.as<std::int32_t>()[t], 1), out.rows(t, 1), 0, 1);
    }
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::Copy(Stream& /*stream*/, TensorView dst, ConstTensorView src) {
  SCD_RETURN_IF_ERROR(CheckCopy(dst, src));
  if (src.num_elements() == 0) return absl::OkStatus();
  if (src.device() != device() || dst.device() != device()) {
    return absl::InvalidArgumentError("Copy: the cpu backend reaches host memory only");
  }
  const ConstTensorView src_rows = AsRows(src);
  const TensorView dst_rows = AsRows(dst);
  cpu::ForEachRowRange(*pool_, src_rows.dim(0), src_rows.dim(1), [&](cpu::Range range) {
    cpu::ConvertRows(src_rows, dst_rows, range.begin, range.end);
  });
  return absl::OkStatus();
}

}  // namespace scd
