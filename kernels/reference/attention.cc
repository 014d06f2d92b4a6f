#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/checks.h"
#include "kernels/reference/kv_vector.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// One query vector of one head at `position`.
void AttendOne(const float* q, const PagedKv& kv, std::int64_t kv_head, std::int64_t position,
               const AttentionOptions& options, float* out) {
  const std::int64_t head_dim = kv.k_pages.dim(3);
  const std::int64_t first =
      options.sliding_window == 0 ? 0 : std::max<std::int64_t>(0, position - options.sliding_window + 1);
  std::vector<double> scores;
  for (std::int64_t p = first; p <= position; ++p) {
    const reference::KvVector k(kv, KvPart::kK, p, kv_head);
    double dot = 0.0;
    for (std::int64_t i = 0; i < head_dim; ++i) dot += double{q[i]} * k[i];
    scores.push_back(options.scale * dot);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0.0;
  std::vector<double> sum(static_cast<std::size_t>(head_dim), 0.0);
  for (std::int64_t p = first; p <= position; ++p) {
    const double weight = std::exp(scores[static_cast<std::size_t>(p - first)] - largest);
    total += weight;
    const reference::KvVector v(kv, KvPart::kV, p, kv_head);
    for (std::int64_t i = 0; i < head_dim; ++i) sum[static_cast<std::size_t>(i)] += weight * v[i];
  }
  for (std::int64_t i = 0; i < head_dim; ++i) {
    out[i] = static_cast<float>(sum[static_cast<std::size_t>(i)] / total);
  }
}

}  // namespace

absl::Status ReferenceBackend::Attention(Stream& /*stream*/, ConstTensorView q,
                                         absl::Span<const AttentionSequence> sequences,
                                         const AttentionOptions& options, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckAttention(q, sequences, options, out, device()));
  for (const AttentionSequence& sequence : sequences) {
    SCD_RETURN_IF_ERROR(CheckAttendedPages(sequence, options));
  }
  for (const AttentionSequence& sequence : sequences) {
    const std::int64_t heads_per_kv_head = q.dim(1) / sequence.kv.k_pages.dim(1);
    for (std::int64_t i = 0; i < sequence.query_count; ++i) {
      const std::int64_t row = sequence.query_begin + i;
      for (std::int64_t h = 0; h < q.dim(1); ++h) {
        AttendOne(q.row<float>(row) + h * q.dim(2), sequence.kv, h / heads_per_kv_head,
                  sequence.first_position + i, options, out.row<float>(row) + h * q.dim(2));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace scd
