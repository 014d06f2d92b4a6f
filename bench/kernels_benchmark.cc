// Throughput of the kernels on the shapes of the shipped model, beside what this machine can do at most in
// the same run: a large product of oneDNN on every thread, and reading memory on every thread.
//
//   kernels_benchmark [--device=cpu] [--math=f32|bf16|auto] [--threads=N] [Google Benchmark's own flags]
//
// FLOP/s counts a multiplication and an addition as two; bytes/s counts every operand once.
#include <dnnl.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "benchmark/benchmark.h"
#include "kernels/backend_factory.h"

namespace scd {
namespace {

constexpr std::int64_t kHeads = 9;
constexpr std::int64_t kKvHeads = 3;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kPageTokens = 32;

void Check(benchmark::State& state, const absl::Status& status) {
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

void Report(benchmark::State& state, double flop, double bytes) {
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(flop, Counter::kIsIterationInvariantRate, Counter::kIs1000);
  state.counters["bytes/s"] = Counter(bytes, Counter::kIsIterationInvariantRate, Counter::kIs1000);
}

// A tensor in host memory, filled with numbers of about unit size.
class Tensor {
 public:
  explicit Tensor(const Shape& shape)
      : shape_(shape), values_(static_cast<std::size_t>(shape.num_elements())) {
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> distribution(-1.0f, 1.0f);
    for (float& value : values_) value = distribution(generator);
  }

  TensorView view() { return TensorView(values_.data(), DType::kF32, shape_); }

 private:
  Shape shape_;
  std::vector<float> values_;
};

class Kernels {
 public:
  explicit Kernels(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
    stream_ = *backend_->CreateStream();
  }

  Backend& backend() { return *backend_; }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

void PeakProduct(benchmark::State& state, int threads) {
  constexpr dnnl_dim_t kSize = 1536;
  std::vector<Tensor> operands;
  for (int i = 0; i < 2 * threads; ++i) operands.emplace_back(Shape{kSize, kSize});
  std::vector<Tensor> results(static_cast<std::size_t>(threads), Tensor({kSize, kSize}));
  for (auto _ : state) {
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        omp_set_num_threads(1);
        dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0f, operands[2 * i].view().as<float>(), kSize,
                   operands[2 * i + 1].view().as<float>(), kSize, 0.0f, results[i].view().as<float>(), kSize);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
  Report(state, 2.0 * kSize * kSize * kSize * threads, 3.0 * kSize * kSize * sizeof(float) * threads);
}

void PeakRead(benchmark::State& state, int threads) {
  constexpr std::size_t kWords = 16 << 20;  // 128 MiB, more than any cache
  std::vector<std::vector<std::uint64_t>> memory(static_cast<std::size_t>(threads));
  for (auto& part : memory) part.assign(kWords, 1);
  for (auto _ : state) {
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&part = memory[i]] {
        std::uint64_t sums[8] = {};
        for (std::size_t j = 0; j < part.size(); j += 8) {
          for (std::size_t k = 0; k < 8; ++k) sums[k] += part[j + k];
        }
        for (const std::uint64_t sum : sums) benchmark::DoNotOptimize(sum);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
  Report(state, 0.0, static_cast<double>(kWords * sizeof(std::uint64_t)) * threads);
}

void MatMul(benchmark::State& state, Kernels& kernels, std::int64_t in, std::int64_t out,
            std::size_t weight_bytes) {
  const std::int64_t rows = state.range(0);
  // As many weights as lie beyond the caches, as in a model, whose layers take turns.
  const std::int64_t copies = std::max<std::int64_t>(1, (96 << 20) / (in * out * 4));
  Tensor weight({out, in});
  std::vector<std::unique_ptr<PackedWeight>> packed;
  for (std::int64_t i = 0; i < copies; ++i)
    packed.push_back(*kernels.backend().PackWeight(weight.view(), {}));
  Tensor x({rows, in});
  Tensor result({rows, out});
  std::size_t next = 0;
  for (auto _ : state) {
    Check(state, kernels.backend().MatMul(kernels.stream(), x.view(), *packed[next], result.view()));
    next = (next + 1) % packed.size();
  }
  Report(state, 2.0 * static_cast<double>(rows * in * out),
         static_cast<double>(in * out) * static_cast<double>(weight_bytes) +
             static_cast<double>(rows * (in + out) * 4));
}

void Attention(benchmark::State& state, Kernels& kernels) {
  const std::int64_t sequences = state.range(0);
  const std::int64_t first_position = state.range(1);
  const std::int64_t queries = state.range(2);
  const std::int64_t pages = (first_position + queries + kPageTokens - 1) / kPageTokens;
  Tensor k_pages({sequences * pages, kKvHeads, kPageTokens, kHeadDim});
  Tensor v_pages({sequences * pages, kKvHeads, kPageTokens, kHeadDim});
  std::vector<std::int32_t> tables(static_cast<std::size_t>(sequences * pages));
  std::iota(tables.begin(), tables.end(), 0);
  std::shuffle(tables.begin(), tables.end(), std::mt19937(1));
  std::vector<AttentionSequence> calls;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const ConstTensorView table(tables.data() + s * pages, DType::kI32, {pages});
    calls.push_back({s * queries, queries, first_position, {k_pages.view(), v_pages.view(), table}});
  }
  Tensor q({sequences * queries, kHeads, kHeadDim});
  Tensor out({sequences * queries, kHeads, kHeadDim});
  const AttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim))};
  for (auto _ : state) {
    Check(state, kernels.backend().Attention(kernels.stream(), q.view(), calls, options, out.view()));
  }
  // Pairs of a query and a position that it attends to.
  const double pairs = static_cast<double>(sequences * queries) *
                       (static_cast<double>(first_position) + static_cast<double>(queries + 1) / 2);
  const double positions = static_cast<double>(sequences * (first_position + queries));
  Report(state, 4.0 * pairs * kHeads * kHeadDim,
         4.0 * (2.0 * positions * kKvHeads + 2.0 * static_cast<double>(sequences * queries) * kHeads) *
             kHeadDim);
}

void RmsNorm(benchmark::State& state, Kernels& kernels) {
  const std::int64_t rows = state.range(0);
  constexpr std::int64_t kDim = 576;
  Tensor x({rows, kDim});
  Tensor weight({kDim});
  Tensor out({rows, kDim});
  for (auto _ : state) {
    Check(state, kernels.backend().RmsNorm(kernels.stream(), x.view(), weight.view(), 1e-5f, out.view()));
  }
  Report(state, 4.0 * static_cast<double>(rows) * kDim, 8.0 * static_cast<double>(rows) * kDim);
}

void SwiGlu(benchmark::State& state, Kernels& kernels) {
  const std::int64_t rows = state.range(0);
  constexpr std::int64_t kDim = 1536;
  Tensor gate({rows, kDim});
  Tensor up({rows, kDim});
  Tensor out({rows, kDim});
  for (auto _ : state) {
    Check(state, kernels.backend().SwiGlu(kernels.stream(), gate.view(), up.view(), out.view()));
  }
  Report(state, 0.0, 12.0 * static_cast<double>(rows) * kDim);
}

void Rope(benchmark::State& state, Kernels& kernels) {
  const std::int64_t tokens = state.range(0);
  Tensor x({tokens, kHeads, kHeadDim});
  Tensor cos({tokens, kHeadDim / 2});
  Tensor sin({tokens, kHeadDim / 2});
  // A turn by table entries of unit size would grow x without end.
  for (std::int64_t i = 0; i < cos.view().num_elements(); ++i) {
    cos.view().as<float>()[i] = 0.6f;
    sin.view().as<float>()[i] = 0.8f;
  }
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  const ConstTensorView positions_view(positions.data(), DType::kI32, {tokens});
  for (auto _ : state) {
    Check(state,
          kernels.backend().Rope(kernels.stream(), x.view(), positions_view, {cos.view(), sin.view()}));
  }
  const double elements = static_cast<double>(tokens * kHeads * kHeadDim);
  Report(state, 3.0 * elements, 8.0 * elements);
}

void Register(Kernels& kernels, int threads, std::size_t weight_bytes) {
  const auto settle = [](benchmark::internal::Benchmark* added) {
    return added->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
  };
  settle(benchmark::RegisterBenchmark("PeakProduct", PeakProduct, threads));
  settle(benchmark::RegisterBenchmark("PeakRead", PeakRead, threads));
  for (const auto& [in, out] :
       {std::pair{576, 576}, std::pair{576, 1536}, std::pair{1536, 576}, std::pair{576, 49152}}) {
    const std::string name = "MatMul/" + std::to_string(in) + "x" + std::to_string(out) + "/rows";
    auto* added = settle(benchmark::RegisterBenchmark(
        name.c_str(), [&kernels, in = in, out = out, weight_bytes](benchmark::State& state) {
          MatMul(state, kernels, in, out, weight_bytes);
        }));
    for (const int rows : {1, 4, 16, 64, 256, 512}) added->Arg(rows);
  }
  settle(benchmark::RegisterBenchmark("Attention/sequences/first_position/queries",
                                      [&kernels](benchmark::State& state) { Attention(state, kernels); }))
      ->Args({1, 0, 256})
      ->Args({1, 0, 2048})
      ->Args({1, 1792, 256})
      ->Args({1, 1024, 16})
      ->Args({1, 512, 1})
      ->Args({1, 2047, 1})
      ->Args({16, 512, 1});
  for (const int rows : {1, 16, 512}) {
    settle(benchmark::RegisterBenchmark("RmsNorm/576/rows", [&kernels](benchmark::State& state) {
      RmsNorm(state, kernels);
    }))->Arg(rows);
    settle(benchmark::RegisterBenchmark("SwiGlu/1536/rows", [&kernels](benchmark::State& state) {
      SwiGlu(state, kernels);
    }))->Arg(rows);
    settle(benchmark::RegisterBenchmark("Rope/9x64/tokens", [&kernels](benchmark::State& state) {
      Rope(state, kernels);
    }))->Arg(rows);
  }
}

}  // namespace
}  // namespace scd

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  CLI::App app("Throughput of the kernels beside this machine's peak");
  scd::BackendOptions options;
  std::string math = "f32";
  app.add_option("--device", options.device, "cpu or reference")->capture_default_str();
  app.add_option("--math", math, "f32, bf16 or auto")->check(CLI::IsMember({"f32", "bf16", "auto"}));
  app.add_option("--threads", options.num_threads, "0: one for each core");
  CLI11_PARSE(app, argc, argv);
  options.math = math == "f32"    ? scd::MathMode::kF32
                 : math == "bf16" ? scd::MathMode::kBF16
                                  : scd::MathMode::kAuto;
  auto backend = scd::CreateBackend(options);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", (*backend)->Describe().c_str());
  const unsigned cores = std::thread::hardware_concurrency();
  const int threads = options.num_threads > 0 ? options.num_threads : static_cast<int>(cores > 0 ? cores : 1);
  scd::Kernels kernels(*std::move(backend));
  scd::Register(kernels, threads, math == "f32" ? 4 : 2);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
