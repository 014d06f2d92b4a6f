// What translation costs in the shapes of the shipped pair: the producer's encoding, the wire's framing and
// checks, and the consumer's rebuilding of a prefix into pages from codes in memory, with Reuse alone (K 96,
// V 128) and with 6 Patch layers (H 576, MLP 1024), against the consumer's own prefill of as many tokens and
// against the machine's peak, all in turns in one run. The bundle has random numbers.
//
//   translate_benchmark --model models/base/SmolLM2-135M-Instruct.Q4_1.gguf --tokens 512,2048 --json out.json
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/kernels/machine_peak.h"
#include "common/bundle/bundle.h"
#include "common/cache/sequence.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "common/translate/layer_encoder.h"
#include "common/translate/layer_rebuilder.h"
#include "common/wire/frame_codec.h"
#include "common/wire/transfer_checker.h"
#include "kernels/backend_factory.h"
#include "kernels/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

struct Options {
  BackendOptions backend;
  ModelSource source;
  std::vector<std::int64_t> tokens = {512, 2048};
  std::int64_t frame_tokens = 256;  // tokens of a code
  std::int64_t chunk_tokens = 512;  // tokens of a chunk of the native prefill
  Codec codec = Codec::kBF16;
  DType pages = DType::kF32;
  int repeats = 5;
  std::string json_path;
};

// A host tensor of numbers around zero.
class Numbers {
 public:
  explicit Numbers(const Shape& shape)
      : shape_(shape), values_(static_cast<std::size_t>(shape.num_elements())) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 97) / 97.0f - 0.5f;
  }
  TensorView view() { return TensorView(values_.data(), DType::kF32, shape_); }

 private:
  Shape shape_;
  std::vector<float> values_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One plan's translators of both sides.
struct Translators {
  std::unique_ptr<LayerEncoder> encoder;
  std::unique_ptr<LayerRebuilder> rebuilder;
  std::unique_ptr<LayerEncoder::Workspace> encoding;
  std::unique_ptr<LayerRebuilder::Workspace> rebuilding;
  double flops_per_token = 0.0;  // of rebuilding, products only
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  absl::Status Prepare() {
    SCD_ASSIGN_OR_RETURN(backend_, CreateBackend(options_.backend));
    SCD_ASSIGN_OR_RETURN(stream_, backend_->CreateStream());
    SCD_ASSIGN_OR_RETURN(model_, OpenModel(options_.source));
    SCD_ASSIGN_OR_RETURN(transformer_, Transformer::Create(model_.config, *model_.weights, *backend_,
                                                           {.weights = model_.weights_format}));
    SCD_ASSIGN_OR_RETURN(workspace_, transformer_->CreateWorkspace(options_.chunk_tokens, 1));
    longest_ = *std::max_element(options_.tokens.begin(), options_.tokens.end());
    const ModelConfig& c = model_.config;
    const KvLayout layout{c.num_layers, c.num_kv_heads, c.head_dim, 32, options_.pages};
    SCD_ASSIGN_OR_RETURN(cache_, PagedKvCache::Create(*backend_, layout, 2 * (longest_ / 32 + 1)));
    SCD_ASSIGN_OR_RETURN(native_, Sequence::Create(*cache_, longest_));
    SCD_ASSIGN_OR_RETURN(rebuilt_, Sequence::Create(*cache_, longest_));
    kv_rows_ = std::make_unique<Numbers>(Shape{options_.frame_tokens, c.num_kv_heads * c.head_dim});
    hidden_rows_ = std::make_unique<Numbers>(Shape{options_.frame_tokens, c.hidden_size});
    return PrepareTranslators();
  }

  std::string Describe() const {
    return backend_->Describe() + "\n" + model_.description + "\n" + patch_.encoder->plan().ToString();
  }

  // Median times of everything for `tokens` tokens, measured in turns.
  absl::StatusOr<nlohmann::json> Measure(std::int64_t tokens) {
    using Codes = std::vector<LayerCode>;
    Codes reuse_codes, patch_codes;
    SCD_RETURN_IF_ERROR(Encode(reuse_, tokens, reuse_codes));
    const std::vector<std::pair<std::string, std::function<absl::Status()>>> works = {
        {"native", [&] { return Prefill(tokens); }},
        {"reuse", [&] { return Rebuild(reuse_, reuse_codes); }},
        {"patch", [&] { return Rebuild(patch_, patch_codes); }},
        {"encode", [&] { return Encode(patch_, tokens, patch_codes); }},
        {"frame", [&] { return Frame(patch_, tokens, patch_codes); }},
    };
    std::map<std::string, std::vector<double>> seconds, cpu_seconds;
    double peak = 0.0;
    SCD_RETURN_IF_ERROR(Encode(patch_, tokens, patch_codes));
    for (int i = -1; i < options_.repeats; ++i) {  // the first turn warms up
      for (const auto& [name, work] : works) {
        const auto begin = std::chrono::steady_clock::now();
        const std::clock_t cpu_begin = std::clock();
        SCD_RETURN_IF_ERROR(work());
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        if (i < 0) continue;
        seconds[name].push_back(taken.count());
        cpu_seconds[name].push_back(static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC);
      }
      peak = std::max(peak, ProductPeak(options_.backend.num_threads));
    }
    nlohmann::json result = {{"tokens", tokens}, {"peak_gflops", 1e-9 * peak}};
    for (const auto& [name, work] : works) {
      result[name + "_ms"] = 1e3 * Median(seconds[name]);
      result[name + "_cpu_ms"] =
          1e3 * Median(cpu_seconds[name]);  // of all threads: a busy machine spoils the other
    }
    for (const auto& [name, translators] :
         {std::pair<std::string, Translators*>{"reuse", &reuse_}, {"patch", &patch_}}) {
      const double ms = result[name + "_ms"];
      const double flop_per_s = translators->flops_per_token * static_cast<double>(tokens) / (1e-3 * ms);
      result[name + "_gflops"] = 1e-9 * flop_per_s;
      result[name + "_of_peak"] = flop_per_s / peak;
      result["native_over_" + name] = result["native_ms"].get<double>() / ms;
    }
    result["native_tokens_per_s"] = 1e3 * static_cast<double>(tokens) / result["native_ms"].get<double>();
    return result;
  }

 private:
  absl::Status PrepareTranslators() {
    testing::TinyBundleOptions bundle_options;
    bundle_options.max_rank_k = bundle_options.default_rank_k = 96;
    bundle_options.max_rank_v = bundle_options.default_rank_v = 128;
    bundle_options.ranks_h = {576};
    bundle_options.candidate_layers = bundle_options.default_patch_layers = {18, 19, 20, 23, 24, 26};
    bundle_options.mlp_width = 1024;
    const testing::TempDir dir;
    SCD_RETURN_IF_ERROR(testing::WriteTinyBundle(dir.File("bundle"), model_.config,
                                                 testing::MadeUpModel("base"), testing::MadeUpModel("expert"),
                                                 bundle_options)
                            .status());
    SCD_ASSIGN_OR_RETURN(const auto bundle, Bundle::Open(dir.File("bundle")));
    SCD_RETURN_IF_ERROR(MakeTranslators(*bundle, std::vector<std::int64_t>(), reuse_));
    return MakeTranslators(*bundle, std::nullopt, patch_);
  }

  absl::Status MakeTranslators(const Bundle& bundle,
                               const std::optional<std::vector<std::int64_t>>& patch_layers,
                               Translators& out) {
    SCD_ASSIGN_OR_RETURN(const LayerPlan plan,
                         bundle.ResolvePlan({.patch_layers = patch_layers, .codec = options_.codec}));
    std::vector<KvProjection> projections;
    for (std::int64_t i = 0; i < model_.config.num_layers; ++i) {
      projections.push_back(transformer_->kv_projection(i));
    }
    const RopeTable& rope = transformer_->rope();
    SCD_ASSIGN_OR_RETURN(out.encoder, LayerEncoder::Create(bundle, plan, rope, *backend_));
    SCD_ASSIGN_OR_RETURN(out.rebuilder, LayerRebuilder::Create(bundle, plan, projections, rope, *backend_));
    SCD_ASSIGN_OR_RETURN(out.encoding, out.encoder->CreateWorkspace(options_.frame_tokens));
    SCD_ASSIGN_OR_RETURN(out.rebuilding, out.rebuilder->CreateWorkspace(options_.frame_tokens));
    const BundleManifest& m = bundle.manifest();
    const auto product = [&out](std::int64_t in, std::int64_t to) {
      out.flops_per_token += 2.0 * static_cast<double>(in * to);
    };
    for (const LayerRanks& layer : plan.layers) {
      if (layer.treatment == LayerTreatment::kReuse) {
        product(layer.rank_k + layer.rank_v, m.d_kv());
      } else {
        product(layer.rank_h, m.mlp_width);  // PatchDecoder's two products
        product(layer.rank_h + m.mlp_width, 2 * m.d_kv());
      }
    }
    return absl::OkStatus();
  }

  absl::Status Prefill(std::int64_t tokens) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] =
          static_cast<std::int32_t>((i * 7919 + 13) % static_cast<std::size_t>(model_.config.vocab_size));
    }
    for (std::int64_t begin = 0; begin < tokens; begin += options_.chunk_tokens) {
      const std::int64_t count = std::min(options_.chunk_tokens, tokens - begin);
      const ForwardChunk chunk{
          native_.get(),
          absl::MakeConstSpan(ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
          begin, begin + count == tokens ? LogitsWanted::kLast : LogitsWanted::kNone};
      SCD_RETURN_IF_ERROR(transformer_->Forward(*workspace_, {&chunk, 1}));
    }
    return absl::OkStatus();
  }

  // Codes of every layer for positions [0, tokens), chunk by chunk as they come from a prefill.
  absl::Status Encode(Translators& t, std::int64_t tokens, std::vector<LayerCode>& codes) {
    codes.clear();
    const auto& layers = t.encoder->plan().layers;
    for (std::int64_t begin = 0; begin < tokens; begin += options_.frame_tokens) {
      const std::int64_t count = std::min(options_.frame_tokens, tokens - begin);
      for (std::size_t i = 0; i < layers.size(); ++i) {
        for (const SentKind& sent : SentKinds(layers[i])) {
          Numbers& rows = sent.kind == CodeKind::kH ? *hidden_rows_ : *kv_rows_;
          SCD_ASSIGN_OR_RETURN(codes.emplace_back(),
                               t.encoder->Encode(*t.encoding, *stream_, static_cast<std::int64_t>(i),
                                                 sent.kind, rows.view().rows(0, count), begin));
        }
      }
    }
    return absl::OkStatus();
  }

  // To frames and back with all checks; takes the codes apart and puts them together again.
  absl::Status Frame(const Translators& t, std::int64_t tokens, std::vector<LayerCode>& codes) const {
    TransferChecker checker(t.encoder->plan(), 0, tokens);
    std::vector<LayerCode> received;
    for (LayerCode& code : codes) {
      for (v1::CodeFrame& frame : ToFrames(std::move(code))) {
        SCD_ASSIGN_OR_RETURN(received.emplace_back(), FromFrame(std::move(frame)));
        SCD_RETURN_IF_ERROR(checker.Accept(received.back()));
      }
    }
    codes = std::move(received);
    return checker.CheckComplete();
  }

  absl::Status Rebuild(const Translators& t, const std::vector<LayerCode>& codes) {
    for (const LayerCode& code : codes) {
      SCD_RETURN_IF_ERROR(t.rebuilder->Rebuild(*t.rebuilding, *stream_, code,
                                               [this](std::int64_t layer) { return rebuilt_->view(layer); }));
    }
    return backend_->Synchronize(*stream_);
  }

  const Options options_;
  std::int64_t longest_ = 0;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  Model model_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Sequence> native_, rebuilt_;
  std::unique_ptr<Numbers> kv_rows_, hidden_rows_;
  Translators reuse_, patch_;
};

absl::Status Run(const Options& options) {
  Bench bench(options);
  SCD_RETURN_IF_ERROR(bench.Prepare());
  std::printf("%s\n", bench.Describe().c_str());
  nlohmann::json all = nlohmann::json::array();
  for (const std::int64_t tokens : options.tokens) {
    SCD_ASSIGN_OR_RETURN(const nlohmann::json result, bench.Measure(tokens));
    std::printf("%s\n", result.dump(2).c_str());
    all.push_back(result);
  }
  if (options.json_path.empty()) return absl::OkStatus();
  std::ofstream file(options.json_path);
  file << all.dump(2) << "\n";
  return file ? absl::OkStatus() : absl::UnavailableError(options.json_path + ": cannot be written");
}

template <typename T>
CLI::CheckedTransformer Names(const std::map<std::string, T>& names) {
  return CLI::CheckedTransformer(names);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Speed of encoding and rebuilding, beside the prefill that it replaces");
  app.add_option("--model", options.source.path, "the consumer's model: a folder or a .gguf file")
      ->required();
  app.add_option("--weights", options.source.weights, "how its matrices are kept")
      ->transform(Names<WeightsFormat>({{"f32", WeightsFormat::kF32}, {"auto", WeightsFormat::kAuto}}));
  app.add_option("--device", options.backend.device, "backend: cpu or reference");
  app.add_option("--threads", options.backend.num_threads, "threads; 0: one for each core");
  app.add_option("--math", options.backend.math, "f32, bf16 or auto")
      ->transform(
          Names<MathMode>({{"f32", MathMode::kF32}, {"bf16", MathMode::kBF16}, {"auto", MathMode::kAuto}}));
  app.add_option("--tokens", options.tokens, "lengths of the prefix")->delimiter(',');
  app.add_option("--frame", options.frame_tokens, "tokens of a code")->check(CLI::Range(1, 65536));
  app.add_option("--chunk", options.chunk_tokens, "tokens of a chunk of the prefill")
      ->check(CLI::Range(1, 65536));
  app.add_option("--codec", options.codec, "bf16, f32, int8 or int4")
      ->transform(Names<Codec>(
          {{"bf16", Codec::kBF16}, {"f32", Codec::kF32}, {"int8", Codec::kInt8}, {"int4", Codec::kInt4}}));
  app.add_option("--pages", options.pages, "f32, bf16 or int8")
      ->transform(Names<DType>({{"f32", DType::kF32}, {"bf16", DType::kBF16}, {"int8", DType::kI8}}));
  app.add_option("--repeats", options.repeats, "turns; medians count")->check(CLI::Range(1, 1000));
  app.add_option("--json", options.json_path, "where the figures are written as well");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace scd

int main(int argc, char** argv) {
  return scd::Main(argc, argv);
}
