#include "consumer/consumer_daemon.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cache/device_memory_log.h"
#include "common/config/transfer_modes.h"
#include "common/model/model_description.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "consumer/code_client.h"
#include "consumer/consumer_service.h"
#include "consumer/rebuilding_client.h"
#include "consumer/serving.h"
#include "consumer/shared_code_client.h"
#include "consumer/shared_codes.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kServiceName[] = "scd.v1.Consumer";

void AddSharedStoreMetrics(MetricsRegistry& metrics, const SharedCodes& codes) {
  const auto read = [&codes](std::int64_t CodeStoreStats::*field) {
    return [&codes, field] { return static_cast<double>(codes.store().stats()[0].*field); };
  };
  metrics.AddGauge("scd_shared_store_up", "1 while the shared code store answers.",
                   [&codes] { return codes.store().up() ? 1.0 : 0.0; });
  metrics.AddCounter("scd_shared_store_served_total",
                     "Transfers served from the shared store, without a producer.",
                     [&codes] { return static_cast<double>(codes.num_served()); });
  metrics.AddCounter("scd_shared_store_unknown_total", "Transfers of which the shared store had too little.",
                     [&codes] { return static_cast<double>(codes.num_unknown()); });
  metrics.AddCounter("scd_shared_store_failures_total",
                     "Questions to the shared store that it did not answer.",
                     read(&CodeStoreStats::read_failures));
  metrics.AddCounter("scd_shared_store_corrupt_total", "Blocks of the shared store that were none.",
                     read(&CodeStoreStats::dropped_corrupt));
}

v1::Policy PolicyToProto(TransferPolicy policy) {
  switch (policy) {
    case TransferPolicy::kRequire:
      return v1::POLICY_REQUIRE;
    case TransferPolicy::kPrefer:
      return v1::POLICY_PREFER;
    case TransferPolicy::kOff:
      return v1::POLICY_OFF;
  }
  return v1::POLICY_UNSPECIFIED;
}

}  // namespace

struct ConsumerDaemon::Files {
  Model model;
  std::unique_ptr<Bundle> bundle;                     // null: only mode local
  LayerPlan plan;                                     // of a request that asks for nothing
  std::string default_mode{kLocalMode};               // never auto
  std::optional<RedisCodeStoreOptions> shared_store;  // absent: none
};

// In the order in which each is needed by the next: destroyed the other way round.
struct ConsumerDaemon::Server {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  std::optional<ConsumerMetrics> metrics;
  PromptRegistry prompts;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<SharedCodes> shared_codes;  // null: none
  std::unique_ptr<TransferClient> transfers;  // null without a bundle
  std::optional<PromptEncoder> encoder;
  std::optional<ByteBudget> score_logits;
  std::optional<TaskThread> score_thread;
  std::optional<Serving> serving;
  std::unique_ptr<grpc::Service> service;
};

ConsumerDaemon::ConsumerDaemon() = default;
ConsumerDaemon::~ConsumerDaemon() = default;

ProgramInfo ConsumerDaemon::program() const {
  return {"scd-consumer", "Serves a fine-tuned model whose KV cache it rebuilds from a producer's codes."};
}

DaemonConfig ConsumerDaemon::default_config() const {
  DaemonConfig config;
  config.grpc.listen = {"127.0.0.1", 7071};
  config.metrics_listen = HostPort{"127.0.0.1", 9471};
  return config;
}

void ConsumerDaemon::Configure(YamlSection root) {
  ReadConsumerConfig(root, &config_);
}

absl::Status ConsumerDaemon::OpenFiles() {
  auto files = std::make_unique<Files>();
  SCD_ASSIGN_OR_RETURN(files->model, OpenModel(config_.model));
  if (!config_.bundle.empty()) {
    SCD_ASSIGN_OR_RETURN(files->bundle, Bundle::Open(config_.bundle));
    SCD_RETURN_IF_ERROR(files->bundle->CheckConsumer(files->model.digest, files->model.tokenizer->digest()));
    SCD_RETURN_IF_ERROR(CheckPlans(*files->bundle));
    const bool has_fused = files->bundle->manifest().fused.rank > 0;
    files->default_mode = ResolveMode(config_.mode, has_fused, config_.plan);
    const std::string_view mode = config_.mode == kLocalMode ? ResolveMode(kAutoMode, has_fused, config_.plan)
                                                             : std::string_view(files->default_mode);
    SCD_ASSIGN_OR_RETURN(files->plan, files->bundle->ResolvePlan(OwnPlan(mode)));
    if (config_.code_store.redis.enabled()) {
      SCD_ASSIGN_OR_RETURN(files->shared_store, RedisOptions(config_.code_store.redis, /*writes=*/false));
    }
  }
  files_ = std::move(files);
  return absl::OkStatus();
}

PlanRequest ConsumerDaemon::OwnPlan(std::string_view mode) const {
  PlanRequest request = PlanRequestFor(mode, config_.plan);
  Overlay({}, &request);
  return request;
}

absl::Status ConsumerDaemon::CheckPlans(const Bundle& bundle) const {
  SCD_RETURN_IF_ERROR(bundle.ResolvePlan(OwnPlan(kScdMode)).status());
  if (config_.plan.distortion) {
    const PlanRequest coded{.codec = Codec::kEntropy, .distortion = config_.plan.distortion};
    SCD_RETURN_IF_ERROR(bundle.ResolvePlan(coded).status());
  }
  if (!config_.plan.recompute_layers) return absl::OkStatus();
  return bundle.ResolvePlan(OwnPlan("selective")).status();
}

absl::StatusOr<std::vector<NamedService>> ConsumerDaemon::Start(const DaemonContext& context) {
  const Model& model = files_->model;
  auto server = std::make_unique<Server>();
  SCD_ASSIGN_OR_RETURN(server->backend, CreateBackend(config_.backend));
  SCD_ASSIGN_OR_RETURN(
      DeviceMemoryLog memory,
      DeviceMemoryLog::Begin(*server->backend,
                             [&log = context.log](const std::string& line) { log.Info(line); }));
  SCD_ASSIGN_OR_RETURN(
      server->transformer,
      Transformer::Create(model.config, *model.weights, *server->backend, {.weights = model.weights_format}));
  files_->model.description = DescribeLoaded(model, *server->transformer);
  const KvCacheSettings& pool = config_.kv_cache.pool;
  SCD_RETURN_IF_ERROR(memory.Note("weights"));
  const KvLayout layout = LayoutFor(pool, model.config);
  EngineOptions engine{.page_tokens = layout.page_tokens,
                       .kv_dtype = layout.dtype,
                       .max_batch_sequences = config_.batch.max_sequences,
                       .prefill_chunk_tokens = config_.batch.prefill_chunk_tokens,
                       .max_queued_requests = config_.batch.max_queued_requests};
  std::optional<std::int64_t> left = memory.free_bytes();
  if (left) *left -= Engine::WorkspaceBytes(*server->transformer, engine);
  SCD_ASSIGN_OR_RETURN(engine.num_pages, NumPages(pool, layout, left));
  const std::optional<std::int64_t> swap_mib = config_.kv_cache.swap_mib;
  engine.swap_bytes = swap_mib ? *swap_mib << 20 : engine.num_pages * layout.page_bytes();
  SCD_ASSIGN_OR_RETURN(server->engine, Engine::Create(*server->transformer, engine));
  SCD_RETURN_IF_ERROR(memory.Note(
      absl::StrCat("workspace of forward passes and ", engine.num_pages, " pages of the KV cache")));
  if (files_->bundle != nullptr) {
    const CodeClientOptions options{
        .address = config_.producer.address.ToString(),
        .connect_timeout = absl::Milliseconds(config_.producer.connect_timeout_ms),
        .queue_frames = config_.producer.queue_frames};
    SCD_ASSIGN_OR_RETURN(std::unique_ptr<CodeClient> codes,
                         CodeClient::Create(options, files_->bundle->manifest(), files_->bundle->digest()));
    if (files_->shared_store) {
      RedisCodeStoreOptions store = *files_->shared_store;
      store.warn = [&log = context.log](const std::string& text) { log.Warning(text); };
      server->shared_codes =
          std::make_unique<SharedCodes>(RedisCodeStore::Create(std::move(store)), files_->bundle->digest());
      codes = CreateSharedCodeClient(
          std::move(codes), *server->shared_codes,
          {.first = config_.code_store.first, .queue_frames = config_.producer.queue_frames});
    }
    SCD_ASSIGN_OR_RETURN(
        server->transfers,
        CreateRebuildingClient(*files_->bundle, *server->transformer, std::move(codes),
                               {.max_cached_plans = config_.max_cached_plans, .default_plan = files_->plan}));
    SCD_RETURN_IF_ERROR(memory.Note("decoders of the default plan"));
  }
  const std::int64_t positions =
      std::min(server->transformer->max_positions(), engine.num_pages * engine.page_tokens);
  const std::int64_t max_prompt = std::max<std::int64_t>(positions - 1, 1);
  const LimitsConfig& limits = config_.limits;
  server->encoder.emplace(
      *model.tokenizer, model.chat_template_source,
      limits.max_prompt_tokens > 0 ? std::min(limits.max_prompt_tokens, max_prompt) : max_prompt);
  server->metrics.emplace(context.metrics, model.config.raw_kv_bytes_per_token());
  server->score_logits.emplace(limits.max_score_logits_mib << 20);
  server->score_thread.emplace();

  TransferDefaults transfer{.mode = config_.mode,
                            .policy = config_.policy,
                            .plan_request = config_.plan,
                            .timeout = absl::Milliseconds(config_.producer.transfer_timeout_ms),
                            .bundle = files_->bundle.get()};
  GenerateLimits generate{.default_max_tokens = limits.default_max_tokens,
                          .max_tokens = limits.max_tokens,
                          .max_positions = positions,
                          .end_token_ids = model.config.eos_token_ids};
  if (generate.end_token_ids.empty() && model.tokenizer->eos_id()) {
    generate.end_token_ids.push_back(*model.tokenizer->eos_id());
  }
  std::vector<std::int32_t> untranslatable;
  if (files_->bundle != nullptr) untranslatable = files_->bundle->manifest().untranslatable_ids;
  std::sort(untranslatable.begin(), untranslatable.end());
  PrefixKeys prefix_keys;
  if (pool.prefix_sharing) {
    prefix_keys = PrefixKeys({.model = model.digest,
                              .weights = absl::StrCat(server->transformer->weights_description(), "; ",
                                                      server->backend->Describe()),
                              .kv_dtype = layout.dtype,
                              .page_tokens = layout.page_tokens,
                              .bundle = files_->bundle == nullptr ? Digest() : files_->bundle->digest()});
  }
  server->serving.emplace(model.config, *model.tokenizer, *server->encoder, *server->engine, *server->metrics,
                          context.requests, context.log, server->transfers.get(), std::move(transfer),
                          std::move(untranslatable), config_.max_uncoded_tokens, std::move(prefix_keys),
                          std::move(generate), limits.max_unsent_tokens, *server->score_thread,
                          *server->score_logits, server->prompts, context.traces);
  server->service = CreateConsumerService(*server->serving, Describe(*server->backend));
  AddMetrics(context.metrics, *server->engine);
  if (server->shared_codes != nullptr) AddSharedStoreMetrics(context.metrics, *server->shared_codes);
  server_ = std::move(server);
  return std::vector<NamedService>{{kServiceName, server_->service.get()}};
}

void ConsumerDaemon::AddMetrics(MetricsRegistry& metrics, const Engine& engine) const {
  const auto read = [&engine](std::int64_t Engine::Stats::*field) {
    return [&engine, field] { return static_cast<double>(engine.stats().*field); };
  };
  metrics.AddGauge("scd_kv_pages_used", "Pages of the KV cache that requests hold.",
                   read(&Engine::Stats::pages_used));
  metrics.AddGauge("scd_kv_pages_total", "Pages of the KV cache.", read(&Engine::Stats::pages_total));
  metrics.AddGauge("scd_kv_pages_cached", "Pages of the KV cache whose blocks are known, held or not.",
                   read(&Engine::Stats::pages_indexed));
  metrics.AddCounter("scd_kv_pages_evicted_total",
                     "Pages with known blocks that were given to other requests.",
                     read(&Engine::Stats::pages_evicted));
  metrics.AddGauge("scd_requests_queued", "Requests that wait for pages, or for another's blocks.",
                   read(&Engine::Stats::requests_queued));
  metrics.AddGauge("scd_requests_swapped", "Requests whose pages are in host memory.",
                   read(&Engine::Stats::requests_swapped));
  metrics.AddCounter("scd_preemptions_total", "Times that a request had to give its pages up.",
                     read(&Engine::Stats::preemptions));
  metrics.AddCounter("scd_kv_swapped_bytes_total", "Bytes of pages that were moved to host memory.",
                     read(&Engine::Stats::swapped_bytes));
  InfoMetrics info(metrics);
  info.SetModel(files_->model.description, files_->model.digest.ToHex());
  if (files_->bundle != nullptr) info.AddBundle(files_->bundle->folder(), files_->bundle->digest().ToHex());
}

v1::ConsumerInfo ConsumerDaemon::Describe(const Backend& backend) const {
  const ModelConfig& config = files_->model.config;
  v1::ConsumerInfo info;
  info.set_version(kScdVersion);
  v1::ModelInfo* model = info.mutable_model();
  model->set_description(files_->model.description);
  model->set_digest(std::string(files_->model.digest.bytes()));
  model->set_tokenizer_digest(std::string(files_->model.tokenizer->digest().bytes()));
  model->set_architecture(std::string(ArchitectureName(config.architecture)));
  model->set_num_layers(static_cast<std::uint32_t>(config.num_layers));
  model->set_hidden_size(static_cast<std::uint32_t>(config.hidden_size));
  model->set_num_kv_heads(static_cast<std::uint32_t>(config.num_kv_heads));
  model->set_head_dim(static_cast<std::uint32_t>(config.head_dim));
  model->set_vocab_size(static_cast<std::uint32_t>(config.vocab_size));
  model->set_max_positions(static_cast<std::uint32_t>(config.max_positions));
  if (files_->bundle != nullptr) {
    v1::BundleInfo* bundle = info.mutable_bundle();
    bundle->set_digest(std::string(files_->bundle->digest().bytes()));
    bundle->set_producer_model_digest(std::string(files_->bundle->manifest().producer.digest.bytes()));
    bundle->set_consumer_model_digest(std::string(files_->bundle->manifest().consumer.digest.bytes()));
    bundle->set_path(files_->bundle->folder());
    info.set_producer_address(config_.producer.address.ToString());
    info.set_plan(files_->plan.ToString());
  }
  info.set_backend(backend.Describe());
  info.set_default_mode(files_->default_mode);
  info.set_default_policy(PolicyToProto(config_.policy));
  return info;
}

std::string ConsumerDaemon::Summary() const {
  const Engine::Stats stats = server_->engine->stats();
  std::string text =
      absl::StrCat(files_->model.description, "; ", server_->backend->Describe(), "; ", stats.pages_total,
                   " KV pages of ", config_.kv_cache.pool.page_tokens, " tokens (",
                   std::string(DTypeName(config_.kv_cache.pool.dtype)), "); mode ", files_->default_mode);
  if (files_->bundle != nullptr) {
    absl::StrAppend(&text, ", policy ", std::string(TransferPolicyName(config_.policy)), ", producer ",
                    config_.producer.address.ToString(), ", bundle ", files_->bundle->folder(), " (",
                    files_->bundle->digest().ToShortHex(), "): ", files_->plan.ToString());
    if (files_->shared_store) {
      absl::StrAppend(&text, ", shared store ", files_->shared_store->server.ToString());
    }
  }
  return text;
}

void ConsumerDaemon::CancelRequests() {
  server_->prompts.CancelAll(absl::UnavailableError("the server is shutting down"));
}

void ConsumerDaemon::Stop() {
  server_.reset();
  files_.reset();
}

}  // namespace scd
