// The KV cache ops of the cpu backend.
#include <algorithm>
#include <vector>

#include "kernels/checks.h"
#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/first_error.h"
#include "kernels/cpu/rows.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Query vectors that share a pass over K and V: enough to make gathering a tile cheap, few enough for cache.
constexpr std::int64_t kBlockVectors = 192;

// The blocks of all sequences, those with most positions to attend to first, so that none of them starts
// last.
std::vector<cpu::AttentionBlock> MakeBlocks(const ConstTensorView& q,
                                            absl::Span<const AttentionSequence> sequences,
                                            const AttentionOptions& options, const TensorView& out) {
  std::vector<cpu::AttentionBlock> blocks;
  for (const AttentionSequence& sequence : sequences) {
    const std::int64_t kv_heads = sequence.kv.k_pages.dim(1);
    const std::int64_t group = q.dim(1) / kv_heads;
    const std::int64_t block_rows = std::max<std::int64_t>(1, kBlockVectors / group);
    for (std::int64_t begin = 0; begin < sequence.query_count; begin += block_rows) {
      for (std::int64_t h = 0; h < kv_heads; ++h) {
        const std::int64_t first_row = sequence.query_begin + begin;
        const std::int64_t offset = h * group * q.dim(2);
        blocks.push_back({.q = q.row<float>(first_row) + offset,
                          .q_stride = q.stride(0),
                          .out = out.row<float>(first_row) + offset,
                          .out_stride = out.stride(0),
                          .rows = std::min(block_rows, sequence.query_count - begin),
                          .group_heads = group,
                          .first_position = sequence.first_position + begin,
                          .sliding_window = options.sliding_window,
                          .scale = options.scale,
                          .kv_head = h,
                          .kv = &sequence.kv});
      }
    }
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const cpu::AttentionBlock& a, const cpu::AttentionBlock& b) {
                     return a.first_position > b.first_position;
                   });
  return blocks;
}

}  // namespace

absl::Status CpuBackend::Attention(Stream& /*stream*/, ConstTensorView q,
                                   absl::Span<const AttentionSequence> sequences,
                                   const AttentionOptions& options, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckAttention(q, sequences, options, out, device()));
  for (const AttentionSequence& sequence : sequences) {
    SCD_RETURN_IF_ERROR(CheckAttendedPages(sequence, options));
  }
  const std::vector<cpu::AttentionBlock> blocks = MakeBlocks(q, sequences, options, out);
  cpu::FirstError error;
  pool_->ParallelFor(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t i) {
    error.Update(cpu::AttendBlock(blocks[static_cast<std::size_t>(i)]));
  });
  return error.status();
}

absl::Status CpuBackend::WriteKv(Stream& /*stream*/, ConstTensorView k, ConstTensorView v,
                                 ConstTensorView positions, const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckWriteKv(k, v, positions, kv, device()));
  const std::int64_t page_tokens = kv.k_pages.dim(2);
  SCD_RETURN_IF_ERROR(CheckIndices("WriteKv", "positions", positions, kv.block_table.dim(0) * page_tokens));
  const std::int32_t* position = positions.as<std::int32_t>();
  const std::int64_t num_tokens = positions.dim(0);
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    SCD_RETURN_IF_ERROR(CheckBlockTable("WriteKv", kv, position[t], position[t]));
  }
  const std::int64_t kv_heads = kv.k_pages.dim(1);
  const std::int64_t head_dim = kv.k_pages.dim(3);
  cpu::ForEachRowRange(*pool_, num_tokens, 2 * kv_heads * head_dim, [&](cpu::Range tokens) {
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
      const std::int64_t page = kv.block_table.as<std::int32_t>()[position[t] / page_tokens];
      for (std::int64_t h = 0; h < kv_heads; ++h) {
        const std::int64_t offset = (h * page_tokens + position[t] % page_tokens) * head_dim;
        if (!k.empty())
          std::copy_n(k.row<float>(t) + h * head_dim, head_dim, kv.k_pages.row<float>(page) + offset);
        if (!v.empty())
          std::copy_n(v.row<float>(t) + h * head_dim, head_dim, kv.v_pages.row<float>(page) + offset);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace scd
