// Throughput of every kernel on the shapes of the shipped model, beside what this machine can do at most in
// the same run (bench/kernels/machine_peak.h).
//
//   kernels_benchmark [--device=cpu] [--math=f32|bf16|auto] [--threads=N] [Google Benchmark's own flags]
#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "bench/kernels/rig.h"
#include "benchmark/benchmark.h"
#include "kernels/backend_factory.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  CLI::App app("Throughput of the kernels beside this machine's peak");
  scd::BackendOptions options{.math = scd::MathMode::kF32};
  app.add_option("--device", options.device, "cpu or reference")->capture_default_str();
  app.add_option("--threads", options.num_threads, "0: one for each core");
  app.add_option("--math", options.math, "f32, bf16 or auto")
      ->transform(CLI::CheckedTransformer(std::map<std::string, scd::MathMode>{
          {"f32", scd::MathMode::kF32}, {"bf16", scd::MathMode::kBF16}, {"auto", scd::MathMode::kAuto}}));
  CLI11_PARSE(app, argc, argv);
  auto backend = scd::CreateBackend(options);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 1;
  }
  scd::Rig rig;
  rig.backend = *std::move(backend);
  rig.stream = *rig.backend->CreateStream();
  rig.peak = scd::MeasurePeak(options.num_threads);
  benchmark::AddCustomContext("backend", rig.backend->Describe());
  benchmark::AddCustomContext("peak_read_bytes_per_s", std::to_string(rig.peak.read_bytes_per_s));
  benchmark::AddCustomContext("peak_product_flop_per_s", std::to_string(rig.peak.product_flop_per_s));
  scd::RegisterProducts(rig);
  scd::RegisterQuantisedProducts(rig);
  scd::RegisterAttention(rig);
  scd::RegisterPointwise(rig);
  scd::RegisterRebuild(rig);
  scd::RegisterShards(rig);
  scd::RegisterPayloads(rig);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
