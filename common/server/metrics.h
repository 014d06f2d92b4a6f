// The Prometheus metrics of both daemons, by group; a daemon makes only the groups that it uses. Times are in
// seconds.
#ifndef SCD_COMMON_SERVER_METRICS_H_
#define SCD_COMMON_SERVER_METRICS_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/config/layer_plan.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace scd {

// Holds all metrics of one process. Thread-safe. Everything made from it is thread-safe and must not outlive
// it.
class MetricsRegistry {
 public:
  MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;
  ~MetricsRegistry();

  using Labels = std::map<std::string, std::string>;
  // A gauge whose value is asked for with each scrape. `read` must be callable until the registry dies or
  // ClearGauges. Gauges of one name differ by their labels.
  void AddGauge(std::string name, std::string help, std::function<double()> read, Labels labels = {});
  // The same for a count that never falls; its name ends in _total.
  void AddCounter(std::string name, std::string help, std::function<double()> read, Labels labels = {});
  // Drops what AddGauge and AddCounter made: no `read` is running or will run after it returns.
  void ClearGauges();

  // The text that a scrape gives.
  std::string Serialize() const;

  struct Impl;
  Impl& impl() { return *impl_; }
  // For the exposer.
  std::shared_ptr<prometheus::Collectable> collectable() const;

 private:
  std::unique_ptr<Impl> impl_;
};

// scd_build_info, scd_model_info, scd_bundle_info.
class InfoMetrics {
 public:
  explicit InfoMetrics(MetricsRegistry& registry);
  void SetBuild(const std::string& program, const std::string& version);
  void SetModel(const std::string& description, const std::string& digest);
  void AddBundle(const std::string& path, const std::string& digest);

 private:
  MetricsRegistry::Impl& registry_;
};

// Codes on the way, on either side: scd_transfer_bytes_total{kind}, scd_transfer_seconds,
// scd_transfers_failed_total{reason}, scd_prompt_tokens_total{source}.
class TransferMetrics {
 public:
  enum class TokenSource : std::uint8_t { kTransferred, kComputed, kCached };

  explicit TransferMetrics(MetricsRegistry& registry);
  ~TransferMetrics();

  // Payload bytes of frames.
  void AddBytes(CodeKind kind, std::int64_t bytes);
  // One whole transfer, from its request until its last frame.
  void ObserveTransfer(double seconds);
  // `reason`: one of a few fixed words (StatusCodeLabel and the like), never text from outside.
  void CountFailure(std::string_view reason);
  // Makes the series of a reason with 0, so that a first failure is seen as an increase.
  void DeclareFailure(std::string_view reason);
  void AddPromptTokens(TokenSource source, std::int64_t count);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

// Calls that have ended, on either side: scd_requests_total{method,code}.
class RequestMetrics {
 public:
  // Makes the series {method, code="ok"} of each method.
  RequestMetrics(MetricsRegistry& registry, std::initializer_list<std::string_view> methods);
  ~RequestMetrics();

  // code: StatusCodeLabel.
  void CountEnded(std::string_view method, std::string_view code);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

// Serving of generation, on the consumer: scd_time_to_first_token_seconds,
// scd_ttft_stage_seconds_total{stage}, scd_time_per_output_token_seconds, scd_fallbacks_total{reason},
// scd_raw_kv_bytes_total.
class GenerationMetrics {
 public:
  explicit GenerationMetrics(MetricsRegistry& registry);
  ~GenerationMetrics();

  void ObserveTimeToFirstToken(double seconds);
  // Time that requests with a first token spent in a stage; stages overlap. `stage`: one of a few fixed
  // words.
  void AddStageSeconds(std::string_view stage, double seconds);
  void ObserveTimePerOutputToken(double seconds);
  // `reason`: one of a few fixed words.
  void CountFallback(std::string_view reason);
  void DeclareFallback(std::string_view reason);
  // What the KV of transferred tokens takes in bf16.
  void AddRawKvBytes(std::int64_t bytes);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace scd

#endif  // SCD_COMMON_SERVER_METRICS_H_
