// How fast the shipped pair's shapes are translated: prompt tokens a second through all 30 layers (24 Reuse
// at K 96 / V 128, 6 Patch at H 576, MLP 1024), for the producer's encoding, the wire's framing and checks,
// and the consumer's rebuilding into pages. The bundle has random numbers.
//
//   translate_benchmark [--device=cpu] [--math=f32|bf16|auto] [--threads=N] [Google Benchmark's own flags]
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "benchmark/benchmark.h"
#include "common/bundle/bundle.h"
#include "common/translate/layer_encoder.h"
#include "common/translate/layer_rebuilder.h"
#include "common/wire/frame_codec.h"
#include "common/wire/transfer_checker.h"
#include "kernels/backend_factory.h"
#include "kernels/status_macros.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

constexpr std::int64_t kMaxTokens = 512;
constexpr std::int64_t kPageTokens = 32;

ModelConfig Shapes() {
  ModelConfig config;
  config.num_layers = 30;
  config.hidden_size = 576;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  return config;
}

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

// Everything that the benchmarks use: translators of both sides, rows to encode, and pages of one sequence.
class Pair {
 public:
  static absl::StatusOr<std::unique_ptr<Pair>> Create(const BackendOptions& options) {
    std::unique_ptr<Pair> pair(new Pair);
    SCD_RETURN_IF_ERROR(pair->Prepare(options));
    return pair;
  }

  std::string Describe() const { return backend_->Describe() + "\n" + encoder_->plan().ToString(); }

  // Codes of every layer for positions [0, tokens).
  absl::Status Encode(std::int64_t tokens, std::vector<LayerCode>& codes) {
    codes.clear();
    const auto& layers = encoder_->plan().layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto layer = static_cast<std::int64_t>(i);
      const bool patch = layers[i].treatment == LayerTreatment::kPatch;
      const auto encode = [&](CodeKind kind, Numbers& rows) -> absl::Status {
        SCD_ASSIGN_OR_RETURN(codes.emplace_back(), encoder_->Encode(*encoding_, *stream_, layer, kind,
                                                                    rows.view().rows(0, tokens), 0));
        return absl::OkStatus();
      };
      if (patch) {
        SCD_RETURN_IF_ERROR(encode(CodeKind::kH, hidden_rows_));
      } else {
        SCD_RETURN_IF_ERROR(encode(CodeKind::kK, kv_rows_));
        SCD_RETURN_IF_ERROR(encode(CodeKind::kV, kv_rows_));
      }
    }
    return absl::OkStatus();
  }

  // To frames and back with all checks; takes the codes apart and puts them together again.
  absl::Status Frame(std::int64_t tokens, std::vector<LayerCode>& codes) const {
    TransferChecker checker(encoder_->plan(), 0, tokens);
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

  absl::Status Rebuild(const std::vector<LayerCode>& codes) {
    for (const LayerCode& code : codes) {
      SCD_RETURN_IF_ERROR(rebuilder_->Rebuild(*rebuilding_, *stream_, code, pages_));
    }
    return backend_->Synchronize(*stream_);
  }

 private:
  Pair() = default;

  absl::Status Prepare(const BackendOptions& options) {
    testing::TinyBundleOptions bundle_options;
    bundle_options.max_rank_k = bundle_options.default_rank_k = 96;
    bundle_options.max_rank_v = bundle_options.default_rank_v = 128;
    bundle_options.ranks_h = {576};
    bundle_options.candidate_layers = bundle_options.default_patch_layers = {18, 19, 20, 23, 24, 26};
    bundle_options.mlp_width = 1024;
    const ModelConfig shapes = Shapes();
    const testing::TempDir dir;
    SCD_RETURN_IF_ERROR(testing::WriteTinyBundle(dir.File("bundle"), shapes, testing::MadeUpModel("base"),
                                                 testing::MadeUpModel("expert"), bundle_options)
                            .status());
    SCD_ASSIGN_OR_RETURN(const auto bundle, Bundle::Open(dir.File("bundle")));
    SCD_ASSIGN_OR_RETURN(const LayerPlan plan, bundle->ResolvePlan({}));

    SCD_ASSIGN_OR_RETURN(backend_, CreateBackend(options));
    SCD_ASSIGN_OR_RETURN(stream_, backend_->CreateStream());
    SCD_ASSIGN_OR_RETURN(projection_, backend_->PackWeight(weight_.view(), {}));
    const std::vector<KvProjection> projections(static_cast<std::size_t>(shapes.num_layers),
                                                {.k = {.weight = projection_.get()},
                                                 .v = {.weight = projection_.get()},
                                                 .k_norm = {},
                                                 .norm_epsilon = 1e-5f,
                                                 .num_kv_heads = shapes.num_kv_heads,
                                                 .head_dim = shapes.head_dim});
    const RopeTable rope{.cos = cos_.view(), .sin = cos_.view()};
    SCD_ASSIGN_OR_RETURN(encoder_, LayerEncoder::Create(*bundle, plan, rope, *backend_));
    SCD_ASSIGN_OR_RETURN(rebuilder_, LayerRebuilder::Create(*bundle, plan, projections, rope, *backend_));
    SCD_ASSIGN_OR_RETURN(encoding_, encoder_->CreateWorkspace(kMaxTokens));
    SCD_ASSIGN_OR_RETURN(rebuilding_, rebuilder_->CreateWorkspace(kMaxTokens));
    for (std::int32_t i = 0; i < kMaxTokens / kPageTokens; ++i) table_.push_back(i);
    pages_ = {.k_pages = k_pages_.view(),
              .v_pages = v_pages_.view(),
              .block_table = ConstTensorView(table_.data(), DType::kI32, {kMaxTokens / kPageTokens})};
    return absl::OkStatus();
  }

  Numbers kv_rows_{{kMaxTokens, 192}}, hidden_rows_{{kMaxTokens, 576}}, weight_{{192, 576}},
      cos_{{kMaxTokens, 32}};
  Numbers k_pages_{{kMaxTokens / kPageTokens, 3, kPageTokens, 64}},
      v_pages_{{kMaxTokens / kPageTokens, 3, kPageTokens, 64}};
  std::vector<std::int32_t> table_;
  PagedKv pages_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<PackedWeight> projection_;
  std::unique_ptr<LayerEncoder> encoder_;
  std::unique_ptr<LayerRebuilder> rebuilder_;
  std::unique_ptr<LayerEncoder::Workspace> encoding_;
  std::unique_ptr<LayerRebuilder::Workspace> rebuilding_;
};

// Runs `work` over codes of as many tokens as the benchmark's argument says.
using Work = std::function<absl::Status(std::int64_t tokens, std::vector<LayerCode>& codes)>;
void Register(const char* name, Pair& pair, const Work& work) {
  benchmark::RegisterBenchmark(name,
                               [&pair, work](benchmark::State& state) {
                                 std::vector<LayerCode> codes;
                                 absl::Status status = pair.Encode(state.range(0), codes);
                                 for (auto _ : state) {
                                   if (status.ok()) status = work(state.range(0), codes);
                                   if (!status.ok()) state.SkipWithError(status.ToString().c_str());
                                 }
                                 state.counters["tokens/s"] =
                                     benchmark::Counter(static_cast<double>(state.range(0)),
                                                        benchmark::Counter::kIsIterationInvariantRate);
                               })
      ->ArgName("tokens")
      ->Arg(1)
      ->Arg(64)
      ->Arg(kMaxTokens)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  BackendOptions options;
  CLI::App app("Speed of encoding and rebuilding");
  app.add_option("--device", options.device, "backend: cpu or reference");
  app.add_option("--threads", options.num_threads, "threads; 0: one for each core");
  app.add_option("--math", options.math, "f32, bf16 or auto")
      ->transform(CLI::CheckedTransformer(std::map<std::string, MathMode>{
          {"f32", MathMode::kF32}, {"bf16", MathMode::kBF16}, {"auto", MathMode::kAuto}}));
  CLI11_PARSE(app, argc, argv);
  const auto pair = Pair::Create(options);
  if (!pair.ok()) {
    std::fprintf(stderr, "%s\n", pair.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", (*pair)->Describe().c_str());
  Pair& p = **pair;
  Register("Encode", p, [&p](auto tokens, auto& codes) { return p.Encode(tokens, codes); });
  Register("Frame", p, [&p](auto tokens, auto& codes) { return p.Frame(tokens, codes); });
  Register("Rebuild", p, [&p](auto /*tokens*/, auto& codes) { return p.Rebuild(codes); });
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace scd

int main(int argc, char** argv) {
  return scd::Main(argc, argv);
}
