#include "common/server/metrics.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace scd {
namespace {

using CounterFamily = prometheus::Family<prometheus::Counter>;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;

// From a millisecond up to ten minutes, for requests of all sizes.
const std::vector<double>& RequestSecondsBuckets() {
  static const std::vector<double> buckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                              1,     2.5,    5,     10,   25,    60,   120, 300,  600};
  return buckets;
}

// Between two tokens.
const std::vector<double>& TokenSecondsBuckets() {
  static const std::vector<double> buckets = {0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1,
                                              0.15,  0.25,   0.5,   1,    2.5,   5,    10,   60,   600};
  return buckets;
}

// Everything of one process: the registry's families, and gauges that are asked for.
class AllMetrics : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families = registry.Collect();
    const absl::MutexLock lock(&mutex_);
    for (const CallbackMetric& gauge : gauges_) {
      const auto same_name = std::find_if(families.begin(), families.end(),
                                          [&gauge](const auto& family) { return family.name == gauge.name; });
      prometheus::MetricFamily& family = same_name == families.end() ? families.emplace_back() : *same_name;
      family.name = gauge.name;
      family.help = gauge.help;
      family.type = gauge.type;
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      for (const auto& [name, value] : gauge.labels) metric.label.push_back({name, value});
      if (gauge.type == prometheus::MetricType::Counter) {
        metric.counter.value = gauge.read();
      } else {
        metric.gauge.value = gauge.read();
      }
    }
    return families;
  }

  void Add(prometheus::MetricType type, std::string name, std::string help, std::function<double()> read,
           MetricsRegistry::Labels labels) {
    const absl::MutexLock lock(&mutex_);
    gauges_.push_back({type, std::move(name), std::move(help), std::move(read), std::move(labels)});
  }

  void ClearGauges() {
    const absl::MutexLock lock(&mutex_);
    gauges_.clear();
  }

  prometheus::Registry registry;

 private:
  struct CallbackMetric {
    prometheus::MetricType type;
    std::string name;
    std::string help;
    std::function<double()> read;
    MetricsRegistry::Labels labels;
  };
  mutable absl::Mutex mutex_;
  std::vector<CallbackMetric> gauges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct MetricsRegistry::Impl {
  const std::shared_ptr<AllMetrics> all = std::make_shared<AllMetrics>();

  CounterFamily& Counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(all->registry);
  }
  prometheus::Histogram& Histogram(const char* name, const char* help, const std::vector<double>& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(all->registry).Add({}, buckets);
  }
  void SetInfo(const char* name, const char* help, const prometheus::Labels& labels) {
    prometheus::BuildGauge().Name(name).Help(help).Register(all->registry).Add(labels).Set(1);
  }
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() {
  ClearGauges();
}

void MetricsRegistry::AddGauge(std::string name, std::string help, std::function<double()> read,
                               Labels labels) {
  impl_->all->Add(prometheus::MetricType::Gauge, std::move(name), std::move(help), std::move(read),
                  std::move(labels));
}

void MetricsRegistry::AddCounter(std::string name, std::string help, std::function<double()> read,
                                 Labels labels) {
  impl_->all->Add(prometheus::MetricType::Counter, std::move(name), std::move(help), std::move(read),
                  std::move(labels));
}

void MetricsRegistry::ClearGauges() {
  impl_->all->ClearGauges();
}

std::string MetricsRegistry::Serialize() const {
  return prometheus::TextSerializer().Serialize(impl_->all->Collect());
}

std::shared_ptr<prometheus::Collectable> MetricsRegistry::collectable() const {
  return impl_->all;
}

InfoMetrics::InfoMetrics(MetricsRegistry& registry) : registry_(registry.impl()) {}

void InfoMetrics::SetBuild(const std::string& program, const std::string& version) {
  registry_.SetInfo("scd_build_info", "The program and its version; always 1.",
                    {{"program", program}, {"version", version}});
}

void InfoMetrics::SetModel(const std::string& description, const std::string& digest) {
  registry_.SetInfo("scd_model_info", "The model that is served; always 1.",
                    {{"model", description}, {"digest", digest}});
}

void InfoMetrics::AddBundle(const std::string& path, const std::string& digest) {
  registry_.SetInfo("scd_bundle_info", "A bundle of translators that is loaded; always 1.",
                    {{"path", path}, {"digest", digest}});
}

struct TransferMetrics::Families {
  explicit Families(MetricsRegistry::Impl& registry)
      : bytes(registry.Counters("scd_transfer_bytes_total", "Payload bytes of code frames.")),
        bytes_by_kind{OfKind(CodeKind::kK), OfKind(CodeKind::kV), OfKind(CodeKind::kH),
                      OfKind(CodeKind::kResidual), OfKind(CodeKind::kKV)},
        seconds(registry.Histogram("scd_transfer_seconds",
                                   "Whole transfers, from the request to the last frame.",
                                   RequestSecondsBuckets())),
        failed(registry.Counters("scd_transfers_failed_total", "Transfers that did not complete.")),
        tokens(registry.Counters("scd_prompt_tokens_total", "Prompt tokens by where their state came from.")),
        transferred(tokens.Add({{"source", "transferred"}})),
        computed(tokens.Add({{"source", "computed"}})),
        cached(tokens.Add({{"source", "cached"}})) {}

  prometheus::Counter* OfKind(CodeKind kind) {
    return &bytes.Add({{"kind", std::string(CodeKindName(kind))}});
  }

  CounterFamily& bytes;
  const std::array<prometheus::Counter*, kNumCodeKinds> bytes_by_kind;  // CodeKind k at k - 1
  prometheus::Histogram& seconds;
  CounterFamily& failed;
  CounterFamily& tokens;
  prometheus::Counter& transferred;
  prometheus::Counter& computed;
  prometheus::Counter& cached;
};

TransferMetrics::TransferMetrics(MetricsRegistry& registry)
    : families_(std::make_unique<Families>(registry.impl())) {}
TransferMetrics::~TransferMetrics() = default;

void TransferMetrics::AddBytes(CodeKind kind, std::int64_t bytes) {
  prometheus::Counter& counter = *families_->bytes_by_kind[static_cast<std::size_t>(kind) - 1];
  counter.Increment(static_cast<double>(bytes));
}

void TransferMetrics::ObserveTransfer(double seconds) {
  families_->seconds.Observe(seconds);
}

void TransferMetrics::CountFailure(std::string_view reason) {
  families_->failed.Add({{"reason", std::string(reason)}}).Increment();
}

void TransferMetrics::DeclareFailure(std::string_view reason) {
  families_->failed.Add({{"reason", std::string(reason)}});
}

void TransferMetrics::AddPromptTokens(TokenSource source, std::int64_t count) {
  prometheus::Counter& counter = source == TokenSource::kTransferred ? families_->transferred
                                 : source == TokenSource::kComputed  ? families_->computed
                                                                     : families_->cached;
  counter.Increment(static_cast<double>(count));
}

struct RequestMetrics::Families {
  explicit Families(MetricsRegistry::Impl& registry)
      : ended(registry.Counters("scd_requests_total", "Calls that have ended, by method and status.")) {}

  prometheus::Counter& Ended(std::string_view method, std::string_view code) {
    return ended.Add({{"method", std::string(method)}, {"code", std::string(code)}});
  }

  CounterFamily& ended;
};

RequestMetrics::RequestMetrics(MetricsRegistry& registry, std::initializer_list<std::string_view> methods)
    : families_(std::make_unique<Families>(registry.impl())) {
  for (const std::string_view method : methods) families_->Ended(method, "ok");
}
RequestMetrics::~RequestMetrics() = default;

void RequestMetrics::CountEnded(std::string_view method, std::string_view code) {
  families_->Ended(method, code).Increment();
}

struct GenerationMetrics::Families {
  explicit Families(MetricsRegistry::Impl& registry)
      : first_token(registry.Histogram("scd_time_to_first_token_seconds",
                                       "From the request to its first token.", RequestSecondsBuckets())),
        output_token(registry.Histogram("scd_time_per_output_token_seconds",
                                        "Mean time of a request's tokens after the first.",
                                        TokenSecondsBuckets())),
        fallbacks(
            registry.Counters("scd_fallbacks_total", "Requests served natively instead of through codes.")),
        stages(
            registry.Counters("scd_ttft_stage_seconds_total",
                              "Time that requests with a first token spent in each stage; stages overlap.")),
        raw_kv(registry.Counters("scd_raw_kv_bytes_total", "What the KV of transferred tokens takes in bf16.")
                   .Add({})) {}

  prometheus::Histogram& first_token;
  prometheus::Histogram& output_token;
  CounterFamily& fallbacks;
  CounterFamily& stages;
  prometheus::Counter& raw_kv;
};

GenerationMetrics::GenerationMetrics(MetricsRegistry& registry)
    : families_(std::make_unique<Families>(registry.impl())) {}
GenerationMetrics::~GenerationMetrics() = default;

void GenerationMetrics::ObserveTimeToFirstToken(double seconds) {
  families_->first_token.Observe(seconds);
}

void GenerationMetrics::AddStageSeconds(std::string_view stage, double seconds) {
  families_->stages.Add({{"stage", std::string(stage)}}).Increment(seconds);
}

void GenerationMetrics::ObserveTimePerOutputToken(double seconds) {
  families_->output_token.Observe(seconds);
}

void GenerationMetrics::CountFallback(std::string_view reason) {
  families_->fallbacks.Add({{"reason", std::string(reason)}}).Increment();
}

void GenerationMetrics::DeclareFallback(std::string_view reason) {
  families_->fallbacks.Add({{"reason", std::string(reason)}});
}

void GenerationMetrics::AddRawKvBytes(std::int64_t bytes) {
  families_->raw_kv.Increment(static_cast<double>(bytes));
}

}  // namespace scd
