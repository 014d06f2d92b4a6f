// A producer of tests/data/tiny-llama with two random bundles, on a backend that tests can hold at a gate.
#ifndef SCD_TESTS_PRODUCER_PRODUCER_RIG_H_
#define SCD_TESTS_PRODUCER_PRODUCER_RIG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "common/server/log.h"
#include "common/store/memory_code_store.h"
#include "producer/encoder_cache.h"
#include "producer/prefill_engine.h"
#include "tests/support/gated_backend.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {

// The model and its bundles: what does not depend on options.
class TinyProducer {
 public:
  TinyProducer();  // ends the test binary where anything fails

  GatedBackend& backend() { return *backend_; }
  const Model& model() const { return model_; }
  const Transformer& transformer() const { return *transformer_; }
  const BundleSet& bundles() const { return *bundles_; }
  const Bundle& bundle(std::size_t i) const { return *bundles_->bundles()[i]; }
  const std::string& folder(std::size_t i) const { return folders_[i]; }
  // The default plan of bundle 0, with this type of codes.
  LayerPlan Plan(Codec codec = Codec::kBF16) const;

 private:
  TempDir dir_;
  std::vector<std::string> folders_;
  std::unique_ptr<GatedBackend> backend_;
  Model model_;
  std::unique_ptr<Transformer> transformer_;
  std::optional<BundleSet> bundles_;
};

// The one of this process.
TinyProducer& SharedTinyProducer();

std::vector<std::int32_t> TestTokens(std::int64_t count, std::uint32_t seed = 1);
// a, then b.
std::vector<std::int32_t> Joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b);

// Payloads of all codes by layer and kind, in token order.
using CodesByColumn = std::map<std::pair<std::int64_t, CodeKind>, std::string>;
void Append(CodesByColumn& codes, const LayerCode& code);

// What a prefill of these tokens must give from first_token on, by one forward pass and the encoder.
CodesByColumn ExpectedCodes(const Bundle& bundle, const LayerPlan& plan,
                            const std::vector<std::int32_t>& tokens, std::int64_t first_token);

// Holds the forward pass that reaches a given attention call, until it is opened.
class Gate {
 public:
  Gate(GatedBackend& backend, std::int64_t call) : backend_(backend) {
    backend.SetGate([this, call](std::int64_t number) {
      absl::MutexLock lock(&mutex_);
      ++num_calls_;
      if (number != call) return;
      reached_ = true;
      mutex_.Await(absl::Condition(&open_));
    });
  }
  ~Gate() {
    Open();
    backend_.SetGate(nullptr);
  }

  // Until a pass waits at the gate.
  void WaitReached() {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&reached_));
  }
  void Open() {
    const absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  // Attention calls that began.
  std::int64_t num_calls() {
    const absl::MutexLock lock(&mutex_);
    return num_calls_;
  }

 private:
  GatedBackend& backend_;
  absl::Mutex mutex_;
  bool reached_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::int64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Whether `condition` came true within the limit; for what has no event to wait for.
inline bool Eventually(const std::function<bool()>& condition, absl::Duration limit = absl::Seconds(20)) {
  const absl::Time end = absl::Now() + limit;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Keeps its lines.
class KeptLog : public Log {
 public:
  void Write(LogLevel /*level*/, std::string_view message) override {
    const absl::MutexLock lock(&mutex_);
    lines_.emplace_back(message);
  }
  std::vector<std::string> lines() {
    const absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace scd::testing

#endif  // SCD_TESTS_PRODUCER_PRODUCER_RIG_H_
