#include "kernels/cuda/codes.h"
#include "kernels/cuda/grouped_integers.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/top_logits.cuh"

namespace scd::cuda {
namespace {

constexpr int kCodeThreads = 128;
constexpr std::int64_t kMostShares = 64;  // blocks of one row

IntegerGranules GranulesOf(const GroupedIntegers& layout) {
  return {.columns = layout.columns,
          .rows = layout.granule_rows(),
          .row_bytes = layout.row_bytes(),
          .header_bytes = layout.header_bytes(),
          .bits = static_cast<std::int32_t>(layout.bits),
          .by_column = layout.by_column};
}

}  // namespace

cudaError_t LaunchPackCodes(cudaStream_t stream, Rows<const float> rows, const GroupedIntegers& layout,
                            std::uint8_t* bytes, std::int64_t num_rows) {
  if (num_rows == 0) return cudaSuccess;
  const std::int64_t granules = (num_rows + layout.granule_rows() - 1) / layout.granule_rows();
  return Launch(PackCodesKernel, dim3(static_cast<unsigned int>(granules)), dim3(kCodeThreads), 0, stream,
                rows, GranulesOf(layout), layout.num_groups(), bytes, num_rows);
}

cudaError_t LaunchUnpackCodes(cudaStream_t stream, const std::uint8_t* bytes, const GroupedIntegers& layout,
                              std::int64_t first_row, AnyRowsOut out, std::int64_t num_rows) {
  if (num_rows == 0) return cudaSuccess;
  const std::int64_t shares = (layout.columns + kCodeThreads - 1) / kCodeThreads;
  const dim3 grid(static_cast<unsigned int>(num_rows),
                  static_cast<unsigned int>(shares < kMostShares ? shares : kMostShares));
  return Launch(UnpackCodesKernel, grid, dim3(kCodeThreads), 0, stream, bytes, GranulesOf(layout), first_row,
                out);
}

cudaError_t LaunchTopLogits(cudaStream_t stream, Rows<const float> logits, const float* temperatures,
                            const TopRows& best, std::int64_t rows, std::int64_t vocabulary) {
  if (rows == 0) return cudaSuccess;
  return Launch(TopLogitsKernel, dim3(static_cast<unsigned int>(rows)), dim3(kTopThreads), TopLogitsBytes(),
                stream, logits, temperatures, best, vocabulary);
}

}  // namespace scd::cuda
