#include "producer/producer_daemon.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/cache/device_memory_log.h"
#include "common/model/model_description.h"
#include "common/model/transformer.h"
#include "common/store/code_keys.h"
#include "kernels/backend_factory.h"
#include "kernels/status_macros.h"
#include "producer/code_tiers.h"
#include "producer/prefill_engine.h"
#include "producer/prefill_service.h"

namespace scd {
namespace {

v1::ProducerInfo MakeInfo(const Model& model, const BundleSet& bundles, const Backend& backend,
                          std::int64_t max_prompt_tokens) {
  v1::ProducerInfo info;
  info.set_version(kScdVersion);
  v1::ModelInfo& served = *info.mutable_model();
  served.set_description(model.description);
  served.set_digest(std::string(model.digest.bytes()));
  served.set_tokenizer_digest(std::string(model.tokenizer->digest().bytes()));
  served.set_architecture(std::string(ArchitectureName(model.config.architecture)));
  served.set_num_layers(static_cast<std::uint32_t>(model.config.num_layers));
  served.set_hidden_size(static_cast<std::uint32_t>(model.config.hidden_size));
  served.set_num_kv_heads(static_cast<std::uint32_t>(model.config.num_kv_heads));
  served.set_head_dim(static_cast<std::uint32_t>(model.config.head_dim));
  served.set_vocab_size(static_cast<std::uint32_t>(model.config.vocab_size));
  served.set_max_positions(static_cast<std::uint32_t>(max_prompt_tokens));
  for (const std::unique_ptr<Bundle>& bundle : bundles.bundles()) {
    v1::BundleInfo& entry = *info.add_bundles();
    entry.set_digest(std::string(bundle->digest().bytes()));
    entry.set_producer_model_digest(std::string(bundle->manifest().producer.digest.bytes()));
    entry.set_consumer_model_digest(std::string(bundle->manifest().consumer.digest.bytes()));
    entry.set_path(bundle->folder());
  }
  info.set_backend(backend.Describe());
  return info;
}

// What the state of a prompt depends on besides the model itself. Codes outlive the process, and products in
// fewer bits give others.
Digest SeedOf(const Model& model, const Transformer& transformer, MathMode math, DType kv_dtype) {
  const char* const products = math == MathMode::kF32 ? "f32" : math == MathMode::kBF16 ? "bf16" : "auto";
  return StateSeed(model.digest, absl::StrCat(transformer.weights_description(), "; math ", products),
                   kv_dtype);
}

// free_device_bytes: what weights and workspace leave; nullopt: the device's memory is the host's, or unknown
// yet.
absl::StatusOr<PrefillEngineOptions> EngineOptions(const ProducerConfig& config, const ModelConfig& model,
                                                   std::int64_t longest,
                                                   std::optional<std::int64_t> free_device_bytes) {
  const KvLayout layout = LayoutFor(config.kv_cache, model);
  SCD_RETURN_IF_ERROR(layout.Validate());
  SCD_ASSIGN_OR_RETURN(const std::int64_t num_pages, NumPages(config.kv_cache, layout, free_device_bytes));
  PrefillEngineOptions options;
  options.chunk_tokens = std::min(config.prefill.chunk_tokens, longest);
  options.kv_tokens = num_pages * layout.page_tokens;
  options.block_tokens = layout.page_tokens;
  options.kv_dtype = layout.dtype;
  options.share_pages = config.kv_cache.prefix_sharing;
  options.max_queued_requests = config.prefill.max_queued_requests;
  options.max_cached_plans = config.prefill.max_cached_plans;
  if (options.kv_tokens < longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_cache: holds ", options.kv_tokens, " tokens of ",
                     layout.page_bytes() / layout.page_tokens, " bytes, too few for the longest prompt of ",
                     longest, "; give it more memory_mib (or pages), or lower prefill.max_prompt_tokens"));
  }
  return options;
}

// What the engine counts, as metrics.
void AddEngineMetrics(MetricsRegistry& metrics, const PrefillEngine& engine) {
  using Stats = PrefillEngine::Stats;
  const auto read = [&engine](std::int64_t Stats::*field) {
    return [&engine, field] { return static_cast<double>(engine.stats().*field); };
  };
  metrics.AddGauge("scd_kv_pages_used", "KV pages in use.", read(&Stats::pages_used));
  metrics.AddGauge("scd_kv_pages_total", "KV pages of the pool.", read(&Stats::pages_total));
  metrics.AddGauge("scd_kv_pages_cached", "KV pages with known blocks, in use or not.",
                   read(&Stats::pages_cached));
  metrics.AddCounter("scd_kv_pages_evicted_total", "KV pages with known blocks that were given up.",
                     read(&Stats::pages_evicted));
  metrics.AddGauge("scd_prefill_queue_length", "Prefills that have not begun.", read(&Stats::num_queued));
  metrics.AddCounter("scd_prefill_rows_total", "Prompt tokens that the model ran.",
                     read(&Stats::prefilled_tokens));
  metrics.AddCounter("scd_prefill_rows_skipped_total", "Prompt tokens that it need not run: known blocks.",
                     read(&Stats::skipped_tokens));
  metrics.AddCounter("scd_prefix_hits_total", "Prefills that took known blocks.", read(&Stats::prefix_hits));
}

}  // namespace

// In the order in which each is made; they die the other way round.
struct ProducerDaemon::Parts {
  explicit Parts(MetricsRegistry& registry) : metrics(registry), ended_calls(registry, {"Prefill"}) {}

  TransferMetrics metrics;
  RequestMetrics ended_calls;
  std::unique_ptr<Transformer> transformer;
  std::unique_ptr<CodeStore> store;
  std::unique_ptr<PrefillEngine> engine;
  std::unique_ptr<PrefillService> service;
};

ProducerDaemon::ProducerDaemon() = default;
ProducerDaemon::~ProducerDaemon() = default;

ProgramInfo ProducerDaemon::program() const {
  return {"scd-producer", "Prefills prompts with the base model and streams their semantic codes."};
}

DaemonConfig ProducerDaemon::default_config() const {
  DaemonConfig config;
  config.grpc.listen = {"127.0.0.1", 7070};
  // A prompt takes some 3 bytes for each token; parsed, a hostile message takes many times its size.
  config.grpc.max_message_bytes = 4 << 20;
  config.metrics_listen = HostPort{"127.0.0.1", 9470};
  return config;
}

void ProducerDaemon::Configure(YamlSection root) {
  ReadProducerConfig(root, &config_);
}

absl::Status ProducerDaemon::OpenFiles() {
  SCD_ASSIGN_OR_RETURN(backend_, CreateBackend(config_.backend));
  SCD_ASSIGN_OR_RETURN(model_, OpenModel(config_.model));
  SCD_ASSIGN_OR_RETURN(bundles_, BundleSet::Open(config_.bundles, model_->config, model_->digest,
                                                 model_->tokenizer->digest()));
  SCD_RETURN_IF_ERROR(CheckCodeStore(config_.code_store));
  SCD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> free_device_bytes, backend_->FreeDeviceBytes());
  return EngineOptions(config_, model_->config, LongestPrompt(), free_device_bytes).status();
}

std::int64_t ProducerDaemon::LongestPrompt() const {
  return std::min(config_.prefill.max_prompt_tokens, model_->config.max_positions);
}

absl::StatusOr<std::vector<NamedService>> ProducerDaemon::Start(const DaemonContext& context) {
  auto parts = std::make_unique<Parts>(context.metrics);
  const std::int64_t longest = LongestPrompt();
  SCD_ASSIGN_OR_RETURN(
      DeviceMemoryLog memory,
      DeviceMemoryLog::Begin(*backend_, [&log = context.log](const std::string& line) { log.Info(line); }));
  SCD_ASSIGN_OR_RETURN(parts->transformer,
                       Transformer::Create(model_->config, *model_->weights, *backend_,
                                           {.max_positions = longest, .weights = model_->weights_format}));
  model_->description = DescribeLoaded(*model_, *parts->transformer);
  SCD_RETURN_IF_ERROR(memory.Note("weights"));
  std::optional<std::int64_t> left = memory.free_bytes();
  if (left) *left -= parts->transformer->workspace_bytes(std::min(config_.prefill.chunk_tokens, longest), 0);
  SCD_ASSIGN_OR_RETURN(const PrefillEngineOptions options,
                       EngineOptions(config_, model_->config, longest, left));
  const Digest seed = SeedOf(*model_, *parts->transformer, config_.backend.math, options.kv_dtype);
  std::vector<CodeSource> sources;
  for (const std::unique_ptr<Bundle>& bundle : bundles_->bundles()) {
    sources.push_back({.bundle = bundle->digest(), .seed = seed, .block_tokens = options.block_tokens});
  }
  SCD_ASSIGN_OR_RETURN(parts->store, OpenCodeStore(config_.code_store, context.log, std::move(sources)));
  SCD_ASSIGN_OR_RETURN(parts->engine,
                       PrefillEngine::Create(*parts->transformer, options, parts->store.get()));
  SCD_RETURN_IF_ERROR(
      memory.Note(absl::StrCat("workspace of forward passes and ", options.kv_tokens / options.block_tokens,
                               " pages of the KV cache")));

  InfoMetrics info(context.metrics);
  info.SetModel(model_->description, model_->digest.ToHex());
  for (const std::unique_ptr<Bundle>& bundle : bundles_->bundles()) {
    info.AddBundle(bundle->folder(), bundle->digest().ToHex());
  }
  AddEngineMetrics(context.metrics, *parts->engine);
  if (parts->store != nullptr) AddCodeStoreMetrics(context.metrics, *parts->store);

  parts->service = std::make_unique<PrefillService>(
      PrefillServiceParts{.bundles = *bundles_,
                          .engine = *parts->engine,
                          .store = parts->store.get(),
                          .block_tokens = options.block_tokens,
                          .max_prompt_tokens = longest,
                          .queue_frames = config_.stream.queue_frames,
                          .max_streams = config_.stream.max_streams,
                          .stall_timeout = absl::Seconds(config_.stream.stall_timeout_seconds),
                          .info = MakeInfo(*model_, *bundles_, *backend_, longest),
                          .model_digest = model_->digest,
                          .state_seed = seed,
                          .vocab_size = model_->config.vocab_size,
                          .log = context.log,
                          .metrics = parts->metrics,
                          .ended_calls = parts->ended_calls,
                          .requests = context.requests,
                          .traces = context.traces});
  parts_ = std::move(parts);
  return std::vector<NamedService>{{"scd.v1.Producer", parts_->service.get()}};
}

std::string ProducerDaemon::Summary() const {
  const auto bundle_name = [](std::string* out, const std::unique_ptr<Bundle>& bundle) {
    absl::StrAppend(out, bundle->folder(), " (", bundle->digest().ToShortHex(), ")");
  };
  return absl::StrCat("model ", model_->description, " (", model_->digest.ToShortHex(), "), bundles ",
                      absl::StrJoin(bundles_->bundles(), ", ", bundle_name), ", backend ",
                      backend_->Describe(), ", ", DescribeCodeStore(parts_->store.get()));
}

void ProducerDaemon::CancelRequests() {
  parts_->service->CancelRequests();
}

void ProducerDaemon::Stop() {
  parts_.reset();
}

}  // namespace scd
