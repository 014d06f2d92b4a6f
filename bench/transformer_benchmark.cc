// How fast a model prefills and decodes on this machine: best of several runs, with the CPU time beside the
// wall time because a busy machine spoils the second.
//
//   transformer_benchmark --model models/base/SmolLM2-135M-Instruct.Q4_1.gguf
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "kernels/backend_factory.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

struct Options {
  ModelSource source;
  BackendOptions backend;
  std::vector<std::int64_t> prefill_tokens = {256, 512};
  std::vector<std::int64_t> decode_batches = {1, 16};
  std::int64_t decode_context = 256;
  int repeats = 5;
};

struct Cost {
  double wall_seconds = std::numeric_limits<double>::infinity();
  double cpu_seconds = std::numeric_limits<double>::infinity();
};

// Runs it `repeats` times and keeps the least of each cost.
template <typename Run>
absl::StatusOr<Cost> Measure(int repeats, const Run& run) {
  Cost best;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    SCD_RETURN_IF_ERROR(run());
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    best.wall_seconds = std::min(best.wall_seconds, wall.count());
    best.cpu_seconds =
        std::min(best.cpu_seconds, static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC);
  }
  return best;
}

void Print(const char* what, std::int64_t size, std::int64_t tokens, const Cost& cost) {
  std::printf("%s %4lld: %8.1f tokens/s, %7.2f ms wall, %7.2f ms CPU\n", what, static_cast<long long>(size),
              static_cast<double>(tokens) / cost.wall_seconds, 1e3 * cost.wall_seconds,
              1e3 * cost.cpu_seconds);
}

std::vector<std::int32_t> Tokens(std::int64_t count, std::int64_t vocab_size) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab_size));
  return tokens;
}

absl::Status Run(const Options& options) {
  SCD_ASSIGN_OR_RETURN(const Model model, OpenModel(options.source));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, CreateBackend(options.backend));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Transformer> transformer,
                       Transformer::Create(model.config, *model.weights, *backend));
  std::printf("%s\n%s\n", model.description.c_str(), backend->Describe().c_str());

  const std::int64_t longest =
      *std::max_element(options.prefill_tokens.begin(), options.prefill_tokens.end());
  const std::int64_t largest =
      *std::max_element(options.decode_batches.begin(), options.decode_batches.end());
  const std::int64_t rows = std::max({longest, largest, options.decode_context});
  const ModelConfig& c = model.config;
  const KvLayout layout{c.num_layers, c.num_kv_heads, c.head_dim, 32, DType::kF32};
  const std::int64_t positions = options.decode_context + options.repeats + 1;
  SCD_ASSIGN_OR_RETURN(
      const std::unique_ptr<PagedKvCache> cache,
      PagedKvCache::Create(*backend, layout, longest / 32 + 1 + largest * (positions / 32 + 1)));
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Transformer::Workspace> workspace,
                       transformer->CreateWorkspace(rows, std::max<std::int64_t>(largest, 1)));
  const std::vector<std::int32_t> tokens = Tokens(rows, c.vocab_size);

  for (const std::int64_t count : options.prefill_tokens) {
    SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Sequence> sequence, Sequence::Create(*cache, count));
    const ForwardChunk chunk{sequence.get(),
                             absl::MakeConstSpan(tokens).first(static_cast<std::size_t>(count)), 0,
                             LogitsWanted::kLast};
    SCD_ASSIGN_OR_RETURN(const Cost cost, Measure(options.repeats, [&] {
                           return transformer->Forward(*workspace, {&chunk, 1});
                         }));
    Print("prefill", count, count, cost);
  }
  for (const std::int64_t batch : options.decode_batches) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<ForwardChunk> chunks;
    for (std::int64_t i = 0; i < batch; ++i) {
      SCD_ASSIGN_OR_RETURN(std::unique_ptr<Sequence> sequence, Sequence::Create(*cache, positions));
      const ForwardChunk context{
          sequence.get(), absl::MakeConstSpan(tokens).first(static_cast<std::size_t>(options.decode_context)),
          0, LogitsWanted::kNone};
      SCD_RETURN_IF_ERROR(transformer->Forward(*workspace, {&context, 1}));
      chunks.push_back({sequence.get(), absl::MakeConstSpan(tokens).first(1), options.decode_context,
                        LogitsWanted::kLast});
      sequences.push_back(std::move(sequence));
    }
    SCD_ASSIGN_OR_RETURN(const Cost cost, Measure(options.repeats, [&]() -> absl::Status {
                           SCD_RETURN_IF_ERROR(transformer->Forward(*workspace, chunks));
                           for (ForwardChunk& chunk : chunks) ++chunk.first_position;
                           return absl::OkStatus();
                         }));
    Print("decode batch", batch, batch, cost);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace scd

int main(int argc, char** argv) {
  scd::Options options;
  CLI::App app("Prefill and decode speed of one model");
  app.add_option("--model", options.source.path, "a model folder or a .gguf file")->required();
  app.add_option("--adapter", options.source.adapter, "a PEFT folder");
  app.add_option("--device", options.backend.device, "cpu or reference");
  app.add_option("--threads", options.backend.num_threads, "threads of the cpu backend; 0: all cores");
  app.add_option("--prefill", options.prefill_tokens, "prompt lengths in tokens")
      ->check(CLI::Range(1, 65536));
  app.add_option("--decode", options.decode_batches, "sequences decoded together")
      ->check(CLI::Range(1, 4096));
  app.add_option("--context", options.decode_context, "tokens before the decoded ones")
      ->check(CLI::Range(1, 65536));
  app.add_option("--repeats", options.repeats, "runs of each; the best counts")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = scd::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
