#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_merge.cuh"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/launch.h"

namespace scd::cuda {
namespace {

// Items of one thread: few rows have few items.
constexpr int kDecodeItems = 1;
constexpr int kPrefillItems = 4;
constexpr int kMergeThreads = 64;

std::int64_t Items(const AttentionLaunch& launch, const SequenceRows& sequence) {
  return static_cast<std::int64_t>(sequence.query_count) * launch.group;
}

template <int kItems>
cudaError_t LaunchTiles(cudaStream_t stream, const AttentionLaunch& launch) {
  constexpr int kFoursOfOne = kRowThreads;  // fours of a head of which each thread has one
  const int fours = FoursOf(launch.head_dim);
  const auto kernel = fours <= kFoursOfOne       ? AttendTileKernel<kItems, 1>
                      : fours <= 2 * kFoursOfOne ? AttendTileKernel<kItems, 2>
                                                 : AttendTileKernel<kItems, 4>;
  const cudaError_t error =
      Launch(kernel, AttentionGrid(launch, kItems * kThreadRows), dim3(kRowThreads, kThreadRows),
             TileBytes<kItems>(launch.head_dim), stream, launch);
  return error == cudaSuccess ? LaunchAttentionMerge(stream, launch) : error;
}

}  // namespace

dim3 AttentionGrid(const AttentionLaunch& launch, int tile_items) {
  std::int64_t blocks = 0;
  for (int s = 0; s < launch.num_sequences; ++s) {
    const SequenceRows& sequence = launch.sequences[s];
    const std::int64_t tiles = (Items(launch, sequence) + tile_items - 1) / tile_items;
    if (tiles * sequence.num_parts > blocks) blocks = tiles * sequence.num_parts;
  }
  return dim3(static_cast<unsigned int>(blocks), static_cast<unsigned int>(launch.pages.kv_heads),
              static_cast<unsigned int>(launch.num_sequences));
}

cudaError_t LaunchAttentionMerge(cudaStream_t stream, const AttentionLaunch& launch) {
  std::int64_t items = 0;
  for (int s = 0; s < launch.num_sequences; ++s) {
    const SequenceRows& sequence = launch.sequences[s];
    if (sequence.num_parts > 1 && Items(launch, sequence) > items) items = Items(launch, sequence);
  }
  if (items == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned int>(items), static_cast<unsigned int>(launch.pages.kv_heads),
                  static_cast<unsigned int>(launch.num_sequences));
  return Launch(MergePartsKernel, grid, dim3(kMergeThreads), 0, stream, launch);
}

cudaError_t LaunchDecodeAttention(cudaStream_t stream, const AttentionLaunch& launch) {
  return LaunchTiles<kDecodeItems>(stream, launch);
}

cudaError_t LaunchPrefillAttention(cudaStream_t stream, const AttentionLaunch& launch) {
  return LaunchTiles<kPrefillItems>(stream, launch);
}

}  // namespace scd::cuda
