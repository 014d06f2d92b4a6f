#include <cmath>

#include "kernels/checks.h"
#include "kernels/reference/element.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

double SiluOf(double x) {
  return x / (1.0 + std::exp(-x));
}

}  // namespace

absl::Status ReferenceBackend::RmsNorm(Stream& /*stream*/, ConstTensorView x, ConstTensorView weight,
                                       float epsilon, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckRmsNorm(x, weight, epsilon, out, device()));
  for (std::int64_t r = 0; r < x.dim(0); ++r) {
    const float* x_row = x.row<float>(r);
    float* out_row = out.row<float>(r);
    double sum_of_squares = 0.0;
    for (std::int64_t i = 0; i < x.dim(1); ++i) sum_of_squares += double{x_row[i]} * x_row[i];
    const double root = std::sqrt(sum_of_squares / static_cast<double>(x.dim(1)) + epsilon);
    for (std::int64_t i = 0; i < x.dim(1); ++i) {
      out_row[i] = static_cast<float>(x_row[i] / root * weight.as<float>()[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Rope(Stream& /*stream*/, TensorView x, ConstTensorView positions,
                                    const RopeTable& table) {
  SCD_RETURN_IF_ERROR(CheckRope(x, positions, table, device()));
  SCD_RETURN_IF_ERROR(CheckIndices("Rope", "positions", positions, table.cos.dim(0)));
  const std::int64_t half = x.dim(2) / 2;
  for (std::int64_t t = 0; t < x.dim(0); ++t) {
    const std::int64_t position = positions.as<std::int32_t>()[t];
    const float* cos = table.cos.row<float>(position);
    const float* sin = table.sin.row<float>(position);
    for (std::int64_t h = 0; h < x.dim(1); ++h) {
      float* head = x.row<float>(t) + h * x.dim(2);
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = head[i];
        const float b = head[i + half];
        head[i] = a * cos[i] - b * sin[i];
        head[i + half] = b * cos[i] + a * sin[i];
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::SwiGlu(Stream& /*stream*/, ConstTensorView gate, ConstTensorView up,
                                      TensorView out) {
  SCD_RETURN_IF_ERROR(CheckSwiGlu(gate, up, out, device()));
  for (std::int64_t r = 0; r < gate.dim(0); ++r) {
    for (std::int64_t i = 0; i < gate.dim(1); ++i) {
      out.row<float>(r)[i] = static_cast<float>(SiluOf(gate.row<float>(r)[i]) * up.row<float>(r)[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Silu(Stream& /*stream*/, TensorView x) {
  SCD_RETURN_IF_ERROR(CheckSilu(x, device()));
  for (std::int64_t r = 0; r < x.dim(0); ++r) {
    for (std::int64_t i = 0; i < x.dim(1); ++i) {
      x.row<float>(r)[i] = static_cast<float>(SiluOf(x.row<float>(r)[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Embed(Stream& /*stream*/, ConstTensorView table, ConstTensorView ids,
                                     TensorView out) {
  SCD_RETURN_IF_ERROR(CheckEmbed(table, ids, out, device()));
  SCD_RETURN_IF_ERROR(CheckIndices("Embed", "ids", ids, table.dim(0)));
  for (std::int64_t t = 0; t < ids.dim(0); ++t) {
    const std::int64_t begin = ids.as<std::int32_t>()[t] * table.stride(0);
    for (std::int64_t i = 0; i < table.dim(1); ++i) out.row<float>(t)[i] = reference::Load(table, begin + i);
  }
  return absl::OkStatus();
}

}  // namespace scd
