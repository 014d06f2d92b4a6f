#include "bench/kernels/machine_peak.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"

namespace scd {
namespace {

constexpr int kRuns = 5;
constexpr dnnl_dim_t kSize = 1024;
constexpr std::size_t kWords = 16 << 20;  // 128 MiB for each thread

int ThreadsOrCores(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Seconds of the fastest of kRuns, all threads together.
double BestSeconds(int threads, const std::function<void(int thread)>& work) {
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (int i = 1; i < threads; ++i) workers.emplace_back(work, i);
    work(0);
    for (std::thread& worker : workers) worker.join();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::min(best, seconds.count());
  }
  return best;
}

}  // namespace

double ProductPeak(int threads) {
  threads = ThreadsOrCores(threads);
  const auto count = static_cast<std::size_t>(kSize * kSize);
  std::vector<std::vector<float>> a(static_cast<std::size_t>(threads), std::vector<float>(count, 0.5f));
  auto b = a, c = a;
  const int openmp_threads = omp_get_max_threads();
  const double seconds = BestSeconds(threads, [&](int thread) {
    omp_set_num_threads(1);  // of this thread
    const auto i = static_cast<std::size_t>(thread);
    dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0f, a[i].data(), kSize, b[i].data(), kSize, 0.0f, c[i].data(),
               kSize);
  });
  omp_set_num_threads(openmp_threads);
  return 2.0 * static_cast<double>(kSize * kSize * kSize) * threads / seconds;
}

double ReadPeak(int threads) {
  threads = ThreadsOrCores(threads);
  std::vector<std::vector<std::uint64_t>> memory(static_cast<std::size_t>(threads),
                                                 std::vector<std::uint64_t>(kWords, 1));
  const double seconds = BestSeconds(threads, [&](int thread) {
    const auto& part = memory[static_cast<std::size_t>(thread)];
    std::uint64_t sums[8] = {};
    for (std::size_t j = 0; j < part.size(); j += 8) {
      for (std::size_t k = 0; k < 8; ++k) sums[k] += part[j + k];
    }
    for (const std::uint64_t sum : sums) benchmark::DoNotOptimize(sum);
  });
  return static_cast<double>(kWords * sizeof(std::uint64_t)) * threads / seconds;
}

MachinePeak MeasurePeak(int threads) {
  return {.read_bytes_per_s = ReadPeak(threads), .product_flop_per_s = ProductPeak(threads)};
}

}  // namespace scd
