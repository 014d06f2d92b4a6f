// How fast a model prefills and decodes on this machine: medians of several runs after one to warm up, with
// the CPU time beside the wall time because a busy machine spoils the second, and the share of the machine's
// own read bandwidth, measured in the same run, that decoding reaches.
//
//   transformer_benchmark --model models/base/SmolLM2-135M-Instruct.Q4_1.gguf
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/kernels/machine_peak.h"
#include "common/model/model_description.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "kernels/backend_factory.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

struct Options {
  ModelSource source{.path = "", .adapter = "", .config = "", .weights = WeightsFormat::kAuto};
  BackendOptions backend;
  DType kv_dtype = DType::kF32;
  std::vector<std::int64_t> prefill_tokens = {512, 2048};
  std::vector<std::int64_t> decode_batches = {1, 16};
  std::int64_t chunk = 512;
  std::int64_t context = 64;
  std::int64_t steps = 128;
  int repeats = 5;
  std::string json;
};

// Of each run.
struct Costs {
  std::vector<double> wall_seconds;
  std::vector<double> cpu_seconds;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Runs it once, then `repeats` times that count.
template <typename Run>
absl::StatusOr<Costs> Measure(int repeats, const Run& run) {
  SCD_RETURN_IF_ERROR(run());
  Costs costs;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    SCD_RETURN_IF_ERROR(run());
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    costs.wall_seconds.push_back(wall.count());
    costs.cpu_seconds.push_back(static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC);
  }
  return costs;
}

// What is written of `tokens` tokens in `steps` passes.
nlohmann::json Entry(std::int64_t tokens, std::int64_t steps, const Costs& costs) {
  std::vector<double> rates;
  for (const double seconds : costs.wall_seconds) rates.push_back(static_cast<double>(tokens) / seconds);
  return {{"tokens_per_s", rates},
          {"median_tokens_per_s", Median(rates)},
          {"median_ms", 1e3 * Median(costs.wall_seconds) / static_cast<double>(steps)},
          {"median_cpu_ms", 1e3 * Median(costs.cpu_seconds) / static_cast<double>(steps)}};
}

std::vector<std::int32_t> Tokens(std::int64_t count, std::int64_t vocab_size) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab_size));
  return tokens;
}

class Benchmark {
 public:
  static absl::StatusOr<Benchmark> Create(const Options& options) {
    Benchmark b(options);
    SCD_ASSIGN_OR_RETURN(b.model_, OpenModel(options.source));
    SCD_ASSIGN_OR_RETURN(b.backend_, CreateBackend(options.backend));
    SCD_ASSIGN_OR_RETURN(b.transformer_, Transformer::Create(b.model_.config, *b.model_.weights, *b.backend_,
                                                             {.weights = options.source.weights}));
    const std::int64_t longest = b.Longest(options.prefill_tokens);
    const std::int64_t largest = b.Longest(options.decode_batches);
    const ModelConfig& c = b.model_.config;
    const KvLayout layout{c.num_layers, c.num_kv_heads, c.head_dim, kPageTokens, options.kv_dtype};
    const std::int64_t pages = (options.context + options.steps) / kPageTokens + 1;
    SCD_ASSIGN_OR_RETURN(
        b.cache_, PagedKvCache::Create(*b.backend_, layout, longest / kPageTokens + 1 + largest * pages));
    SCD_ASSIGN_OR_RETURN(b.workspace_, b.transformer_->CreateWorkspace(std::max(options.chunk, largest),
                                                                       std::max<std::int64_t>(largest, 1)));
    b.tokens_ = Tokens(std::max(longest, options.context + options.steps), c.vocab_size);
    return b;
  }

  std::string Describe() const {
    return absl::StrCat(DescribeLoaded(model_, *transformer_), "\n", backend_->Describe());
  }

  absl::StatusOr<nlohmann::json> Prefill(std::int64_t count) {
    SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Sequence> sequence, Sequence::Create(*cache_, count));
    SCD_ASSIGN_OR_RETURN(const Costs costs, Measure(options_.repeats, [&] {
                           return Fill(*sequence, count, LogitsWanted::kLast);
                         }));
    nlohmann::json entry = Entry(count, 1, costs);
    entry["tokens"] = count;
    return entry;
  }

  // The steps after a context, one token of each sequence in each.
  absl::StatusOr<nlohmann::json> Decode(std::int64_t batch, double read_bytes_per_s) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (std::int64_t i = 0; i < batch; ++i) {
      SCD_ASSIGN_OR_RETURN(std::unique_ptr<Sequence> sequence,
                           Sequence::Create(*cache_, options_.context + options_.steps));
      SCD_RETURN_IF_ERROR(Fill(*sequence, options_.context, LogitsWanted::kNone));
      sequences.push_back(std::move(sequence));
    }
    std::vector<ForwardChunk> chunks(static_cast<std::size_t>(batch));
    SCD_ASSIGN_OR_RETURN(const Costs costs, Measure(options_.repeats, [&]() -> absl::Status {
                           for (std::int64_t step = 0; step < options_.steps; ++step) {
                             const std::int64_t position = options_.context + step;
                             for (std::size_t i = 0; i < chunks.size(); ++i) {
                               chunks[i] = {sequences[i].get(),
                                            {&tokens_[static_cast<std::size_t>(position)], 1},
                                            position,
                                            LogitsWanted::kLast};
                             }
                             SCD_RETURN_IF_ERROR(transformer_->Forward(*workspace_, chunks));
                           }
                           return absl::OkStatus();
                         }));
    nlohmann::json entry = Entry(batch * options_.steps, options_.steps, costs);
    const double bytes_per_s =
        static_cast<double>(transformer_->step_bytes()) * 1e3 / entry["median_ms"].get<double>();
    entry["batch"] = batch;
    entry["weight_bytes_per_s"] = bytes_per_s;
    entry["share_of_read_bandwidth"] = bytes_per_s / read_bytes_per_s;
    return entry;
  }

  const Model& model() const { return model_; }
  const Transformer& transformer() const { return *transformer_; }
  const Backend& backend() const { return *backend_; }

 private:
  static constexpr std::int64_t kPageTokens = 32;

  explicit Benchmark(const Options& options) : options_(options) {}

  static std::int64_t Longest(const std::vector<std::int64_t>& sizes) {
    return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  }

  // The first `count` tokens, in chunks.
  absl::Status Fill(Sequence& sequence, std::int64_t count, LogitsWanted logits) {
    for (std::int64_t begin = 0; begin < count; begin += options_.chunk) {
      const std::int64_t rows = std::min(options_.chunk, count - begin);
      const ForwardChunk chunk{&sequence,
                               absl::MakeConstSpan(tokens_).subspan(static_cast<std::size_t>(begin),
                                                                    static_cast<std::size_t>(rows)),
                               begin, begin + rows == count ? logits : LogitsWanted::kNone};
      SCD_RETURN_IF_ERROR(transformer_->Forward(*workspace_, {&chunk, 1}));
    }
    return absl::OkStatus();
  }

  const Options& options_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::vector<std::int32_t> tokens_;
};

void Print(std::FILE* out, const char* what, const char* size, const nlohmann::json& entry) {
  std::fprintf(out, "%s %4lld: %8.1f tokens/s, %7.2f ms wall, %7.2f ms CPU", what,
               static_cast<long long>(entry[size].get<std::int64_t>()),
               entry["median_tokens_per_s"].get<double>(), entry["median_ms"].get<double>(),
               entry["median_cpu_ms"].get<double>());
  if (entry.contains("share_of_read_bandwidth")) {
    std::fprintf(out, " a step, weights at %.1f GB/s, %.0f %% of the read bandwidth",
                 entry["weight_bytes_per_s"].get<double>() / 1e9,
                 100 * entry["share_of_read_bandwidth"].get<double>());
  }
  std::fprintf(out, "\n");
}

absl::Status Run(const Options& options) {
  std::FILE* const text = options.json == "-" ? stderr : stdout;
  SCD_ASSIGN_OR_RETURN(Benchmark benchmark, Benchmark::Create(options));
  std::fprintf(text, "%s\n", benchmark.Describe().c_str());
  const double read_bytes_per_s = ReadPeak(options.backend.num_threads);
  std::fprintf(text, "this machine reads %.1f GB/s\n", read_bytes_per_s / 1e9);

  nlohmann::json document = {{"model", benchmark.model().description},
                             {"weights", benchmark.transformer().weights_description()},
                             {"weight_bytes", benchmark.transformer().weight_bytes()},
                             {"step_bytes", benchmark.transformer().step_bytes()},
                             {"kv_dtype", std::string(DTypeName(options.kv_dtype))},
                             {"backend", benchmark.backend().Describe()},
                             {"read_bytes_per_s", read_bytes_per_s},
                             {"chunk", options.chunk},
                             {"context", options.context},
                             {"steps", options.steps},
                             {"prefill", nlohmann::json::array()},
                             {"decode", nlohmann::json::array()}};
  for (const std::int64_t count : options.prefill_tokens) {
    SCD_ASSIGN_OR_RETURN(const nlohmann::json entry, benchmark.Prefill(count));
    Print(text, "prefill", "tokens", entry);
    document["prefill"].push_back(entry);
  }
  for (const std::int64_t batch : options.decode_batches) {
    SCD_ASSIGN_OR_RETURN(const nlohmann::json entry, benchmark.Decode(batch, read_bytes_per_s));
    Print(text, "decode batch", "batch", entry);
    document["decode"].push_back(entry);
  }
  if (options.json.empty()) return absl::OkStatus();
  if (options.json == "-") {
    std::printf("%s\n", document.dump(1).c_str());
    return absl::OkStatus();
  }
  std::ofstream file(options.json);
  file << document.dump(1) << "\n";
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(options.json, ": cannot be written"));
}

}  // namespace
}  // namespace scd

int main(int argc, char** argv) {
  scd::Options options;
  CLI::App app("Prefill and decode speed of one model");
  app.add_option("--model", options.source.path, "a model folder or a .gguf file")->required();
  app.add_option("--adapter", options.source.adapter, "a PEFT folder");
  std::map<std::string, scd::WeightsFormat> formats;
  for (const auto format : {scd::WeightsFormat::kAuto, scd::WeightsFormat::kF32, scd::WeightsFormat::kBF16,
                            scd::WeightsFormat::kInt8, scd::WeightsFormat::kInt4}) {
    formats.emplace(scd::WeightsFormatName(format), format);
  }
  app.add_option("--weights", options.source.weights, "how matrices are kept: auto, f32, bf16, int8 or int4")
      ->transform(CLI::CheckedTransformer(formats));
  app.add_option("--math", options.backend.math, "products in auto, f32 or bf16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, scd::MathMode>{
          {"auto", scd::MathMode::kAuto}, {"f32", scd::MathMode::kF32}, {"bf16", scd::MathMode::kBF16}}));
  app.add_option("--kv-dtype", options.kv_dtype, "how K and V are kept: f32, bf16 or int8")
      ->transform(CLI::CheckedTransformer(std::map<std::string, scd::DType>{
          {"f32", scd::DType::kF32}, {"bf16", scd::DType::kBF16}, {"int8", scd::DType::kI8}}));
  app.add_option("--device", options.backend.device, "cpu or reference");
  app.add_option("--threads", options.backend.num_threads, "threads of the cpu backend; 0: all cores");
  app.add_option("--prefill", options.prefill_tokens, "prompt lengths in tokens")
      ->check(CLI::Range(1, 65536));
  app.add_option("--chunk", options.chunk, "tokens of a prompt that go through the model together")
      ->check(CLI::Range(1, 65536));
  app.add_option("--decode", options.decode_batches, "sequences decoded together")
      ->check(CLI::Range(1, 4096));
  app.add_option("--context", options.context, "tokens before the decoded ones")->check(CLI::Range(1, 65536));
  app.add_option("--steps", options.steps, "tokens decoded of each sequence")->check(CLI::Range(1, 65536));
  app.add_option("--repeats", options.repeats, "runs of each; medians count")->check(CLI::Range(1, 1000));
  app.add_option("--json", options.json, "a file for the figures, -: standard output");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = scd::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
