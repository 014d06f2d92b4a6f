// Speed of a model of 7B shape with made-up weights on a GPU: prefill, decode, and transfers by codes, beside
// what the device reaches in one large product and in one large copy, all in one run.
//
//   gpu_benchmark --json figures.json
//   gpu_benchmark --shape tiny --device cpu
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/gpu/made_up_bundle.h"
#include "bench/gpu/model_speed.h"
#include "bench/gpu/transfer_speed.h"
#include "kernels/status_macros.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

// Time that one measurement is given when its last one took `seconds` with fewer tokens.
double Expected(double seconds, std::int64_t tokens, std::int64_t last_tokens) {
  const double ratio = last_tokens == 0 ? 1 : static_cast<double>(tokens) / static_cast<double>(last_tokens);
  return seconds * ratio * ratio;
}

class Figures {
 public:
  explicit Figures(std::string path) : path_(std::move(path)) {}
  nlohmann::json& document() { return document_; }

  // The file always holds a whole document.
  absl::Status Write() const {
    if (path_.empty()) return absl::OkStatus();
    const std::string part = path_ + ".part";
    std::ofstream file(part);
    file << document_.dump(1) << "\n";
    file.close();
    std::error_code error;
    if (file) std::filesystem::rename(part, path_, error);
    if (file && !error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path_, ": cannot be written"));
  }

 private:
  const std::string path_;
  nlohmann::json document_ = nlohmann::json::object();
};

absl::Status MeasureTransfers(const GpuBenchmarkOptions& options, const ModelRig& rig, const Bundle& bundle,
                              const Peaks& peaks, Turns& turns, Figures& figures) {
  nlohmann::json& document = figures.document();
  std::vector<std::unique_ptr<TransferBenchmark>> benchmarks;
  for (const char* form : kTransferForms) {
    SCD_ASSIGN_OR_RETURN(auto benchmark, TransferBenchmark::Create(rig, bundle, form));
    benchmarks.push_back(std::move(benchmark));
  }
  double last_seconds = 0;
  std::int64_t last_tokens = 0;
  for (const std::int64_t tokens : rig.shape().tokens) {
    if (!turns.HasTimeFor(Expected(last_seconds, tokens, last_tokens), absl::StrCat(tokens, " tokens")))
      continue;
    const double begin = turns.elapsed_seconds();
    SCD_ASSIGN_OR_RETURN(const nlohmann::json native, MeasurePrefill(rig, tokens, peaks, turns));
    std::printf("%s\n", absl::StrCat("prefill ", native.dump()).c_str());
    document["prefill"].push_back(native);
    for (const auto& benchmark : benchmarks) {
      SCD_ASSIGN_OR_RETURN(const nlohmann::json row,
                           benchmark->Measure(tokens, 1e-3 * native["ms"].get<double>(),
                                              options.links_gbit_per_s, peaks, turns));
      std::printf("%s\n", absl::StrCat("transfer ", row.dump()).c_str());
      document["transfer"].push_back(row);
    }
    last_seconds = turns.elapsed_seconds() - begin;
    last_tokens = tokens;
    SCD_RETURN_IF_ERROR(figures.Write());
  }
  return absl::OkStatus();
}

absl::Status Run(const GpuBenchmarkOptions& options) {
  SCD_ASSIGN_OR_RETURN(const BenchmarkShape shape, MakeShape(options));
  Turns turns(options);
  SCD_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, CreateBackend(options.backend));
  std::printf("%s\n", backend->Describe().c_str());
  Figures figures(options.json);
  nlohmann::json& document = figures.document();
  document = {{"device", backend->Describe()},      {"shape", options.shape},
              {"layers", shape.model.num_layers},   {"chunk", shape.chunk},
              {"prefill", nlohmann::json::array()}, {"decode", nlohmann::json::array()},
              {"transfer", nlohmann::json::array()}};

  const MadeUpNumbers numbers(std::max(MadeUpWeights::NumbersOf(shape.model), PeakNumbers(shape)),
                              1.0f / std::sqrt(static_cast<float>(shape.model.hidden_size)));
  SCD_ASSIGN_OR_RETURN(const Peaks peaks, MeasurePeaks(*backend, shape, numbers, turns));
  document["peaks"] = peaks.ToJson(shape);
  std::printf("%s\n", absl::StrCat("peaks ", document["peaks"].dump()).c_str());
  SCD_RETURN_IF_ERROR(figures.Write());

  SCD_ASSIGN_OR_RETURN(const ModelRig rig, ModelRig::Create(*backend, shape, numbers));
  document["weight_bytes"] = rig.transformer().weight_bytes();
  document["model_seconds"] = turns.elapsed_seconds();
  for (const std::int64_t batch : shape.batches) {
    if (!turns.HasTimeFor(0, absl::StrCat("batch ", batch))) continue;
    SCD_ASSIGN_OR_RETURN(const nlohmann::json row, MeasureDecode(rig, batch, peaks, turns));
    std::printf("%s\n", absl::StrCat("decode ", row.dump()).c_str());
    document["decode"].push_back(row);
    SCD_RETURN_IF_ERROR(figures.Write());
  }

  const testing::TempDir temporary;
  const std::string folder = options.work_folder.empty() ? temporary.path() : options.work_folder;
  SCD_ASSIGN_OR_RETURN(const auto bundle, MakeUpBundle(folder + "/bundle", shape));
  SCD_RETURN_IF_ERROR(MeasureTransfers(options, rig, *bundle, peaks, turns, figures));
  document["left_out"] = turns.left_out();
  document["seconds"] = turns.elapsed_seconds();
  return figures.Write();
}

// 0: it can be had. 3: not on this machine, with the reason on standard error.
int Probe(const GpuBenchmarkOptions& options) {
  const auto backend = CreateBackend(options.backend);
  if (backend.ok()) {
    std::printf("%s\n", (*backend)->Describe().c_str());
    return 0;
  }
  std::fprintf(stderr, "%s\n", std::string(backend.status().message()).c_str());
  return absl::IsFailedPrecondition(backend.status()) ? 3 : 1;
}

int Main(int argc, char** argv) {
  GpuBenchmarkOptions options;
  bool probe = false;
  CLI::App app("Speed of a large model with made-up weights, and of transfers by codes, on a GPU");
  app.add_flag("--probe", probe, "only say which device is used, or why none (exit code 3)");
  app.add_option("--device", options.backend.device, "cuda, cpu or reference")->capture_default_str();
  app.add_option("--plugin", options.backend.cuda.plugin, "the cuda backend; empty: beside the program");
  app.add_option("--gpu", options.backend.cuda.device, "which GPU")->capture_default_str();
  app.add_option("--scratch-mib", options.backend.cuda.scratch_mib, "MiB of scratch memory of a stream")
      ->capture_default_str();
  app.add_option("--threads", options.backend.num_threads, "threads of the cpu backend; 0: all cores");
  app.add_option("--math", options.backend.math, "products in auto, f32 or bf16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, MathMode>{
          {"auto", MathMode::kAuto}, {"f32", MathMode::kF32}, {"bf16", MathMode::kBF16}}));
  app.add_option("--shape", options.shape, "7b or tiny")->capture_default_str();
  app.add_option("--layers", options.layers, "0: the shape's")->check(CLI::Range(0, 256));
  app.add_option("--tokens", options.tokens, "lengths of prompts")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--batches", options.batches, "sequences decoded together")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  app.add_option("--context", options.context, "tokens before the decoded ones")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--steps", options.steps, "tokens decoded of each sequence")->check(CLI::Range(1, 4096));
  app.add_option("--chunk", options.chunk, "tokens that go through the model together")
      ->check(CLI::Range(1, 65536));
  app.add_option("--product-rows", options.product_rows, "of the product that others are compared with")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--copy-mib", options.copy_mib, "MiB of the copy on the device")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--links", options.links_gbit_per_s, "rates that wire times are computed for, Gbit/s")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "runs of each measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--turn-seconds", options.turn_seconds, "a measurement ends after so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit-seconds", options.limit_seconds, "nothing is begun that would end later")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--work", options.work_folder, "a folder for the made-up bundle (2.4 GB)");
  app.add_option("--json", options.json, "a file for the figures, written after each part");
  CLI11_PARSE(app, argc, argv);
  if (probe) return Probe(options);
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace scd

int main(int argc, char** argv) {
  return scd::Main(argc, argv);
}
