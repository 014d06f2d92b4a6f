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
  constexpr int kTileItems = kItems * kThreadRows;
  std::int64_t blocks = 0;
  for (int s = 0; s < launch.num_sequences; ++s) {
    const SequenceRows& sequence = launch.sequences[s];
    const std::int64_t tiles = (Items(launch, sequence) + kTileItems - 1) / kTileItems;
    if (tiles * sequence.num_parts > blocks) blocks = tiles * sequence.num_parts;
  }
  constexpr int kFoursOfOne = kRowThreads;  // fours of a head of which each thread has one
  const int fours = FoursOf(launch.head_dim);
  const auto kernel = fours <= kFoursOfOne       ? AttendTileKernel<kItems, 1>
                      : fours <= 2 * kFoursOfOne ? AttendTileKernel<kItems, 2>
                                                 : AttendTileKernel<kItems, 4>;
  const dim3 grid(static_cast<unsigned int>(blocks), static_cast<unsigned int>(launch.pages.kv_heads),
                  static_cast<unsigned int>(launch.num_sequences));
  return Launch(kernel, grid, dim3(kRowThreads, kThreadRows), TileBytes<kItems>(launch.head_dim), stream,
                launch);
}

cudaError_t LaunchMerge(cudaStream_t stream, const AttentionLaunch& launch) {
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

}  // namespace

cudaError_t LaunchDecodeAttention(cudaStream_t stream, const AttentionLaunch& launch) {
  const cudaError_t error = LaunchTiles<kDecodeItems>(stream, launch);
  return error == cudaSuccess ? LaunchMerge(stream, launch) : error;
}

cudaError_t LaunchPrefillAttention(cudaStream_t stream, const AttentionLaunch& launch) {
  const cudaError_t error = LaunchTiles<kPrefillItems>(stream, launch);
  return error == cudaSuccess ? LaunchMerge(stream, launch) : error;
}

}  // namespace scd::cuda
