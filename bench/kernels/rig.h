// What the kernel benchmarks share: a backend, made-up tensors, and counters against the machine's peak.
#ifndef SCD_BENCH_KERNELS_RIG_H_
#define SCD_BENCH_KERNELS_RIG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/kernels/machine_peak.h"
#include "benchmark/benchmark.h"
#include "kernels/backend.h"

namespace scd {

// SmolLM2-135M, the shipped pair.
inline constexpr std::int64_t kHidden = 576;
inline constexpr std::int64_t kMlp = 1536;
inline constexpr std::int64_t kVocabulary = 49152;
inline constexpr std::int64_t kHeads = 9;
inline constexpr std::int64_t kKvHeads = 3;
inline constexpr std::int64_t kHeadDim = 64;
inline constexpr std::int64_t kKvDim = kKvHeads * kHeadDim;
inline constexpr std::int64_t kPageTokens = 32;

// Memory of the host with made-up numbers in it.
class Tensor {
 public:
  // f32, bf16: numbers in [-1, 1); i8: in -100..100; i32: 0, 1, 2 and so on.
  explicit Tensor(const Shape& shape, DType dtype = DType::kF32);
  TensorView view() { return TensorView(bytes_.data(), dtype_, shape_); }

 private:
  Shape shape_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

// Pages of one layer for several sequences of equal length, in a random order, as after a long service.
class Pages {
 public:
  Pages(std::int64_t sequences, std::int64_t positions, DType dtype);
  PagedKv of(std::int64_t sequence);
  // Bytes of K and V of one position.
  double bytes_per_position() const;

 private:
  const std::int64_t pages_each_;
  const DType dtype_;
  Tensor k_, v_, k_scales_, v_scales_;
  std::vector<std::int32_t> tables_;
};
const char* NameOf(DType dtype);

struct Rig {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Stream> stream;
  MachinePeak peak;

  // What one iteration does: two for a multiplication and an addition; every operand counted once.
  struct Work {
    double flop = 0.0;
    double bytes = 0.0;
  };
  // Runs `op` until the time is right. Counters: bytes/s and its share of the peak ("of_read"); with flop
  // also FLOP/s and its share ("of_product").
  void Measure(benchmark::State& state, const Work& work, const std::function<absl::Status()>& op) const;
};

// Wall time with the process' CPU time beside it, in microseconds.
benchmark::internal::Benchmark* Settled(benchmark::internal::Benchmark* added);

// One for each topic; they add their benchmarks. `rig` outlives the run.
void RegisterProducts(Rig& rig);
void RegisterQuantisedProducts(Rig& rig);
void RegisterAttention(Rig& rig);
void RegisterPointwise(Rig& rig);
void RegisterRebuild(Rig& rig);
void RegisterShards(Rig& rig);
void RegisterPayloads(Rig& rig);

}  // namespace scd

#endif  // SCD_BENCH_KERNELS_RIG_H_
