// The tiny pair loaded and a run's context for tests of single stages.
#ifndef SCD_TESTS_CALIBRATE_TINY_RUN_H_
#define SCD_TESTS_CALIBRATE_TINY_RUN_H_

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/model_pair.h"
#include "calibrate/pair_runner.h"
#include "calibrate/parallel.h"
#include "calibrate/run_context.h"
#include "calibrate/trace_tap.h"
#include "common/bundle/manifest.h"
#include "common/model/loaded_pair.h"
#include "tests/calibrate/tiny_pair.h"
#include "tests/support/temp_dir.h"

namespace scd::testing {

class CollectingLog : public Log {
 public:
  void Write(LogLevel, std::string_view message) override {
    text += message;
    text += '\n';
  }
  std::string text;
};

class TinyRun {
 public:
  // strength: how far the consumer's weights are from the producer's; kept: how names of those that are the
  // same begin.
  explicit TinyRun(float strength = 0.1f, const std::vector<std::string>& kept = {}) {
    WriteTinyModel(dir_.File("producer"), 0.0f);
    WriteTinyModel(dir_.File("consumer"), strength, kept);
    CalibrateConfig config;
    config.producer.path = dir_.File("producer");
    config.consumer.path = dir_.File("consumer");
    pair_ = OpenModelPair(config).value();
    loaded_ = LoadPair(pair_.producer, pair_.consumer, {.device = "cpu", .num_threads = 1}, 512).value();
    workers_ = WorkerPool::Create(2, 8).value();
    OpenWork();
  }

  // A fresh lock on the same folder, as the next process would have.
  void OpenWork() {
    work_.reset();
    work_ = WorkFolder::Open(dir_.File("work")).value();
  }

  RunContext context() {
    return {.log = log_, .work = *work_, .stop = stop_.get_token(), .progress = {.first_after_s = 1e9}};
  }
  std::stop_source& stop() { return stop_; }
  void ResetStop() { stop_ = std::stop_source(); }
  const ModelPair& pair() const { return pair_; }
  const LoadedPair& loaded() const { return loaded_; }
  WorkerPool& workers() { return *workers_; }
  // Of a bundle of this pair, without what was fitted.
  BundleManifest Manifest() const {
    const ModelConfig& c = pair_.consumer.config;
    BundleManifest m;
    m.created_by = "test";
    m.producer = {"producer", pair_.producer.digest, pair_.producer.tokenizer->digest()};
    m.consumer = {"consumer", pair_.consumer.digest, pair_.consumer.tokenizer->digest()};
    m.architecture = "llama";
    m.num_layers = c.num_layers;
    m.hidden_size = c.hidden_size;
    m.num_kv_heads = c.num_kv_heads;
    m.head_dim = c.head_dim;
    return m;
  }
  CollectingLog& log() { return log_; }
  std::string File(const std::string& name) const { return dir_.File(name); }

  TraceShape shape(std::vector<std::int64_t> hidden_layers) const {
    const ModelConfig& c = pair_.consumer.config;
    return {.num_layers = c.num_layers,
            .d_kv = c.d_kv(),
            .hidden = c.hidden_size,
            .hidden_layers = std::move(hidden_layers),
            .hidden_dtype = DType::kF32};
  }

  static Prefixes RandomPrefixes(std::int64_t count, std::int64_t tokens, std::uint32_t seed) {
    std::mt19937 random(seed);
    Prefixes out;
    for (std::int64_t i = 0; i < count; ++i) {
      auto& ids = out.emplace_back();
      for (std::int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<std::int32_t>(3 + random() % 900));
    }
    return out;
  }

 private:
  TempDir dir_;
  ModelPair pair_;
  LoadedPair loaded_;
  std::unique_ptr<WorkerPool> workers_;
  std::unique_ptr<WorkFolder> work_;
  std::stop_source stop_;
  CollectingLog log_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_CALIBRATE_TINY_RUN_H_
