// Attention of the cuda backend: which sequences go into which launch, and into how many parts their
// positions are cut.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/bad_operand.h"
#include "kernels/checks.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/view_rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

using cuda::AttentionLaunch;
using cuda::PagesIn;
using cuda::SequenceRows;
using cuda::ToStatus;

// Sequences of up to this many rows are decoding: their positions are cut into parts.
constexpr std::int64_t kDecodeRows = 4;
constexpr std::int64_t kLeastPartPositions = 256;
constexpr std::int64_t kMostParts = 32;
constexpr std::int64_t kPartMultiple = 32;

std::int64_t DivideUp(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

PagesIn PagesOf(const PagedKv& kv) {
  PagesIn pages{.k = kv.k_pages.data(),
                .v = kv.v_pages.data(),
                .dtype = kv.k_pages.dtype(),
                .k_page_stride = kv.k_pages.stride(0),
                .v_page_stride = kv.v_pages.stride(0),
                .num_pages = kv.k_pages.dim(0),
                .kv_heads = kv.k_pages.dim(1),
                .page_tokens = kv.k_pages.dim(2)};
  if (pages.dtype != DType::kI8) return pages;
  pages.k_scales = kv.k_scales.as<float>();
  pages.v_scales = kv.v_scales.as<float>();
  pages.k_scale_stride = kv.k_scales.stride(0);
  pages.v_scale_stride = kv.v_scales.stride(0);
  return pages;
}

// Depends on nothing but the sequence, so that its result does not depend on whom it is computed with.
SequenceRows RowsOf(const AttentionSequence& sequence, const AttentionOptions& options) {
  SequenceRows rows{.block_table = sequence.kv.block_table.as<std::int32_t>(),
                    .query_begin = sequence.query_begin,
                    .first_position = sequence.first_position,
                    .query_count = static_cast<std::int32_t>(sequence.query_count)};
  if (sequence.query_count > kDecodeRows) return rows;
  const std::int64_t begin =
      options.sliding_window == 0
          ? 0
          : std::max<std::int64_t>(0, sequence.first_position - options.sliding_window + 1);
  const std::int64_t seen = sequence.first_position + sequence.query_count - begin;
  const std::int64_t parts = std::min(kMostParts, DivideUp(seen, kLeastPartPositions));
  const std::int64_t positions = DivideUp(DivideUp(seen, parts), kPartMultiple) * kPartMultiple;
  rows.part_positions = static_cast<std::int32_t>(positions);
  rows.num_parts = static_cast<std::int32_t>(DivideUp(seen, positions));
  return rows;
}

// Which kernel has the rows of a sequence that is not decoding: tensor cores where products are in bf16
// anyway.
cudaError_t (*PrefillLauncher(DType product_dtype))(cudaStream_t, const AttentionLaunch&) {
  return product_dtype == DType::kBF16 ? cuda::LaunchMmaAttention : cuda::LaunchPrefillAttention;
}

// Collects sequences until a launch is full or the next one does not belong to it.
class Launcher {
 public:
  using Launch = cudaError_t (*)(cudaStream_t, const AttentionLaunch&);

  Launcher(const cuda::CudaStream& stream, Launch launch, const AttentionLaunch& common)
      : stream_(stream), launch_(launch), next_(common) {}

  absl::Status Add(const PagesIn& pages, const SequenceRows& rows, std::int64_t heads) {
    const auto group = static_cast<std::int32_t>(heads / pages.kv_heads);
    const std::int64_t floats =
        rows.num_parts == 1
            ? 0
            : cuda::PartialFloats(rows.num_parts, pages.kv_heads, rows.query_count * group, next_.head_dim);
    const auto room = static_cast<std::int64_t>(stream_.scratch().size_bytes() / sizeof(float));
    if (next_.num_sequences > 0 && (next_.num_sequences == cuda::kSequencesOfALaunch ||
                                    !(next_.pages == pages) || taken_ + floats > room)) {
      SCD_RETURN_IF_ERROR(Flush());
    }
    if (floats > room) {
      return absl::ResourceExhaustedError(
          "Attention: a stream's scratch memory is too small for one sequence");
    }
    next_.pages = pages;
    next_.group = group;
    SequenceRows& added = next_.sequences[next_.num_sequences++];
    added = rows;
    added.partial_begin = taken_;
    taken_ += floats;
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (next_.num_sequences == 0) return absl::OkStatus();
    next_.partials = static_cast<float*>(stream_.scratch().data());
    const absl::Status status = ToStatus("Attention", launch_(stream_.get(), next_));
    next_.num_sequences = 0;
    taken_ = 0;
    return status;
  }

 private:
  const cuda::CudaStream& stream_;
  const Launch launch_;
  AttentionLaunch next_;
  std::int64_t taken_ = 0;  // floats of partial results
};

}  // namespace

absl::Status CudaBackend::Attention(Stream& stream, ConstTensorView q,
                                    absl::Span<const AttentionSequence> sequences,
                                    const AttentionOptions& options, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckAttention(q, sequences, options, out, device()));
  if (q.dim(2) > cuda::kMaxHeadDim) {
    return Bad("Attention", "q", "has head_dim ", q.dim(2), ", the cuda backend takes up to ",
               cuda::kMaxHeadDim);
  }
  if (q.dim(0) > std::numeric_limits<std::int32_t>::max())
    return Bad("Attention", "q", "has ", q.dim(0), " rows");
  SCD_ASSIGN_OR_RETURN(const cuda::CudaStream* own, Use(stream));
  AttentionLaunch common;
  common.q = cuda::RowsOf(q);
  common.out = cuda::RowsOf(out);
  common.head_dim = static_cast<std::int32_t>(q.dim(2));
  common.scale = options.scale;
  common.window = options.sliding_window;
  common.bad = own->bad_index();
  Launcher decode(*own, cuda::LaunchDecodeAttention, common);
  Launcher prefill(*own, PrefillLauncher(product_dtype_), common);
  for (const AttentionSequence& sequence : sequences) {
    Launcher& launcher = sequence.query_count <= kDecodeRows ? decode : prefill;
    SCD_RETURN_IF_ERROR(launcher.Add(PagesOf(sequence.kv), RowsOf(sequence, options), q.dim(1)));
  }
  SCD_RETURN_IF_ERROR(decode.Flush());
  return prefill.Flush();
}

}  // namespace scd
