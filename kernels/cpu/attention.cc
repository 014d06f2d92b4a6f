// The KV cache ops of the cpu backend.
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "kernels/checks.h"
#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/cache_line.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/write_kv.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Query vectors that share a pass over K and V: enough to make gathering a tile cheap, few enough for cache.
constexpr std::int64_t kBlockVectors = 192;
// Positions of a stretch. A decode step is always cut at the same places, so that what it computes depends on
// nothing but its sequence.
constexpr std::int64_t kDecodeStretch = 128;
constexpr std::int64_t kPrefillStretch = 512;
// With fewer blocks than this for each thread, those of a prefill are cut as well.
constexpr std::int64_t kBlocksPerThread = 4;
// States begin on cache lines of their own.
constexpr std::int64_t kLineFloats = cpu::kCacheLineBytes / static_cast<std::int64_t>(sizeof(float));
// Below this many multiplications waking another thread costs more than it saves.
constexpr std::int64_t kMinSharedProducts = 1 << 18;

// Part of a block's positions: number `index` of its stretches.
struct Stretch {
  std::size_t block;
  std::int64_t index;
  cpu::Range positions;

  std::int64_t length() const { return positions.end - positions.begin; }
};

// The blocks of an attention call and the stretches that they are cut into.
class AttentionWork {
 public:
  AttentionWork(const ConstTensorView& q, absl::Span<const AttentionSequence> sequences,
                const AttentionOptions& options, const TensorView& out, int num_threads) {
    for (const AttentionSequence& sequence : sequences) AddBlocks(q, sequence, options, out);
    const bool few_blocks =
        num_threads > 1 && static_cast<std::int64_t>(blocks_.size()) < kBlocksPerThread * num_threads;
    for (std::size_t i = 0; i < blocks_.size(); ++i) Cut(i, few_blocks);
    // Longest first, so that no long one starts last.
    std::stable_sort(stretches_.begin(), stretches_.end(),
                     [this](const Stretch& a, const Stretch& b) { return Products(a) > Products(b); });
    std::int64_t products = 0;
    for (const Stretch& stretch : stretches_) products += Products(stretch);
    const auto most = static_cast<std::int64_t>(stretches_.size());
    num_runners_ = products < kMinSharedProducts ? 1 : std::min<std::int64_t>(most, num_threads);
    left_ = std::make_unique<std::atomic<std::int64_t>[]>(blocks_.size());
    for (std::size_t i = 0; i < blocks_.size(); ++i) left_[i] = states_[i].count;
  }

  absl::Status Run(cpu::ThreadPool& pool) {
    const std::int64_t floats = std::max<std::int64_t>(1, state_floats_);
    const auto states = hwy::AllocateAligned<float>(static_cast<std::size_t>(floats));
    if (states == nullptr) return absl::ResourceExhaustedError("no memory for attention");
    return cpu::RunWithScratch(pool, num_runners_, static_cast<std::int64_t>(stretches_.size()),
                               {scratch_floats_, "a block of attention"},
                               [&](std::int64_t i, float* scratch) {
                                 RunStretch(stretches_[static_cast<std::size_t>(i)], states.get(), scratch);
                                 return absl::OkStatus();
                               });
  }

 private:
  // What the stretches of a block add up to: `count` states of `size` floats from `offset` on.
  struct States {
    std::int64_t offset;
    std::int64_t size;
    std::int64_t count;
  };

  void AddBlocks(const ConstTensorView& q, const AttentionSequence& sequence, const AttentionOptions& options,
                 const TensorView& out) {
    const std::int64_t kv_heads = sequence.kv.k_pages.dim(1);
    const std::int64_t group = q.dim(1) / kv_heads;
    const std::int64_t block_rows = std::max<std::int64_t>(1, kBlockVectors / group);
    for (std::int64_t begin = 0; begin < sequence.query_count; begin += block_rows) {
      for (std::int64_t h = 0; h < kv_heads; ++h) {
        const std::int64_t first_row = sequence.query_begin + begin;
        const std::int64_t offset = h * group * q.dim(2);
        blocks_.push_back({.q = q.row<float>(first_row) + offset,
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

  void Cut(std::size_t index, bool few_blocks) {
    const cpu::AttentionBlock& block = blocks_[index];
    const cpu::Range all = block.positions();
    const bool decode = block.has_few_vectors();
    std::int64_t length = all.end - all.begin;
    if (decode || few_blocks) length = decode ? kDecodeStretch : kPrefillStretch;
    scratch_floats_ = std::max(scratch_floats_, cpu::AttentionScratchFloats(block));
    const auto floats = static_cast<std::int64_t>(cpu::AttentionStateFloats(block));
    const std::int64_t size = cpu::Partition::RoundUp(floats, kLineFloats);
    States& states = states_.emplace_back(States{state_floats_, size, 0});
    for (std::int64_t begin = all.begin; begin < all.end; begin += length) {
      stretches_.push_back({index, states.count++, {begin, std::min(all.end, begin + length)}});
    }
    state_floats_ += states.size * states.count;
  }

  std::int64_t Products(const Stretch& stretch) const {
    const cpu::AttentionBlock& block = blocks_[stretch.block];
    return stretch.length() * block.vectors() * 2 * block.kv->k_pages.dim(3);
  }

  // Who ends the last stretch of a block joins them.
  void RunStretch(const Stretch& stretch, float* states, float* scratch) {
    const cpu::AttentionBlock& block = blocks_[stretch.block];
    const States& own = states_[stretch.block];
    float* const first = states + own.offset;
    cpu::AttendStretch(block, stretch.positions, first + stretch.index * own.size, scratch);
    if (left_[stretch.block].fetch_sub(1) == 1) cpu::JoinStretches(block, first, own.size, own.count);
  }

  std::vector<cpu::AttentionBlock> blocks_;
  std::vector<States> states_;  // of each block
  std::vector<Stretch> stretches_;
  std::int64_t state_floats_ = 0;
  std::size_t scratch_floats_ = 0;
  std::int64_t num_runners_ = 1;
  std::unique_ptr<std::atomic<std::int64_t>[]> left_;  // of each block: stretches that have not ended
};

}  // namespace

absl::Status CpuBackend::Attention(Stream& /*stream*/, ConstTensorView q,
                                   absl::Span<const AttentionSequence> sequences,
                                   const AttentionOptions& options, TensorView out) {
  SCD_RETURN_IF_ERROR(CheckAttention(q, sequences, options, out, device()));
  for (const AttentionSequence& sequence : sequences) {
    SCD_RETURN_IF_ERROR(CheckAttendedPages(sequence, options));
  }
  return AttentionWork(q, sequences, options, out, pool_->num_threads()).Run(*pool_);
}

absl::Status CpuBackend::WriteKv(Stream& /*stream*/, ConstTensorView k, ConstTensorView v,
                                 ConstTensorView positions, const PagedKv& kv) {
  SCD_RETURN_IF_ERROR(CheckWriteKv(k, v, positions, kv, device()));
  SCD_RETURN_IF_ERROR(CheckPositions("WriteKv", positions, kv));
  const std::int64_t width = 2 * kv.k_pages.dim(1) * kv.k_pages.dim(3);
  const auto* position = positions.as<std::int32_t>();
  cpu::ForEachRowRange(*pool_, positions.dim(0), width, [&](cpu::Range tokens) {
    if (!k.empty()) cpu::WriteKvRows(k, position, tokens, cpu::KvSlots(kv, KvPart::kK));
    if (!v.empty()) cpu::WriteKvRows(v, position, tokens, cpu::KvSlots(kv, KvPart::kV));
  });
  return absl::OkStatus();
}

}  // namespace scd
