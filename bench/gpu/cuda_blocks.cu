// Prints how the kernels are launched, for tools/report/cuda_kernels.py: name, threads of a block, bytes of
// dynamic shared memory, and what the instance is for. Calls no GPU.
#include <cstdio>

#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/rms_norm.cuh"
#include "kernels/cuda/top_logits.cuh"

namespace scd::cuda {
namespace {

void Print(const char* name, int threads, std::size_t shared_bytes, const char* use) {
  std::printf("%s\t%d\t%zu\t%s\n", name, threads, shared_bytes, use);
}

void PrintAll() {
  Print("AttendMmaKernel<4>", kMmaThreads, MmaBytes(64), "prefill in bf16, heads of 64");
  Print("AttendMmaKernel<8>", kMmaThreads, MmaBytes(128), "prefill in bf16, heads of 128");
  Print("AttendMmaKernel<16>", kMmaThreads, MmaBytes(256), "prefill in bf16, heads of 256");
  Print("AttendTileKernel<1, 1>", kTileThreads, TileBytes<1>(64), "decode, heads of 64");
  Print("AttendTileKernel<1, 2>", kTileThreads, TileBytes<1>(128), "decode, heads of 128");
  Print("AttendTileKernel<1, 4>", kTileThreads, TileBytes<1>(256), "decode, heads of 256");
  Print("AttendTileKernel<4, 1>", kTileThreads, TileBytes<4>(64), "prefill in f32, heads of 64");
  Print("AttendTileKernel<4, 2>", kTileThreads, TileBytes<4>(128), "prefill in f32, heads of 128");
  Print("AttendTileKernel<4, 4>", kTileThreads, TileBytes<4>(256), "prefill in f32, heads of 256");
  Print("MergePartsKernel", 64, 0, "decode, parts of long sequences");
  Print("StoreVectorsKernel", 4 * kWarpThreads, 0, "K and V into pages");
  Print("QuantizedProductKernel<8, 1>", 4 * kWarpThreads, 0, "weights of 8 bits, one row");
  Print("QuantizedProductKernel<8, 8>", 4 * kWarpThreads, 0, "weights of 8 bits, few rows");
  Print("QuantizedProductKernel<4, 1>", 4 * kWarpThreads, 0, "weights of 4 bits, one row");
  Print("QuantizedProductKernel<4, 8>", 4 * kWarpThreads, 0, "weights of 4 bits, few rows");
  Print("DequantizeKernel<8>", 128, 0, "a panel of weights of 8 bits");
  Print("DequantizeKernel<4>", 128, 0, "a panel of weights of 4 bits");
  Print("PackCodesKernel", 128, 0, "codes to integers");
  Print("UnpackCodesKernel", 128, 0, "integers to codes");
  Print("TopLogitsKernel", kTopThreads, TopLogitsBytes(), "sampling");
  Print("RmsNormKernel", kWideRowThreads, 0, "norms of long rows");
  for (const char* name :
       {"RopeKernel", "SwiGluKernel", "EmbedKernel", "ScaleAndBiasKernel", "ConvertKernel"}) {
    Print(name, 256, 0, "pointwise");
  }
}

}  // namespace
}  // namespace scd::cuda

int main() {
  scd::cuda::PrintAll();
  return 0;
}
