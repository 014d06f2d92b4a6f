#include "tests/e2e/daemon_pair.h"

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model/model_source.h"
#include "kernels/status_macros.h"
#include "tests/e2e/e2e_paths.h"
#include "tests/support/attentive_model.h"
#include "tests/support/loopback.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_bundle.h"

namespace scd::testing {
namespace {

void Set(std::vector<std::string>& arguments, const std::string& setting) {
  arguments.push_back("--set");
  arguments.push_back(setting);
}

}  // namespace

absl::StatusOr<PairFiles> MakeTinyPair(const std::string& folder) {
  PairFiles files;
  files.producer_model = files.consumer_model = folder + "/model";
  files.bundle = folder + "/bundle";
  SCD_RETURN_IF_ERROR(WriteAttentiveModel(files.producer_model));
  SCD_ASSIGN_OR_RETURN(const Model model, OpenModel({files.producer_model, "", ""}));
  const BundleModel side{"attentive tiny-llama", model.digest, model.tokenizer->digest()};
  TinyBundleOptions options;
  options.identity = true;
  options.fused_model = files.producer_model;
  SCD_RETURN_IF_ERROR(WriteTinyBundle(files.bundle, model.config, side, side, options).status());
  files.consumer_settings = {"plan.codec=f32", "math=f32", "kv_cache.memory_mib=64"};
  files.producer_settings = {"math=f32", "prefill.max_prompt_tokens=512"};
  return files;
}

PairFiles RealPair(const std::string& base_model, const std::string& bundle) {
  PairFiles files;
  files.producer_model = files.consumer_model = base_model;
  files.consumer_adapter = ExpertAdapterPath();
  files.bundle = bundle;
  files.producer_settings = {"code_store.capacity_mib=0"};
  return files;
}

std::vector<std::string> ProducerArguments(const PairFiles& files, int port) {
  std::vector<std::string> arguments = {"--config", ShippedConfig("producer")};
  Set(arguments, absl::StrCat("model.path=", files.producer_model));
  Set(arguments, absl::StrCat("bundles=[", files.bundle, "]"));
  Set(arguments, absl::StrCat("server.listen=127.0.0.1:", port));
  Set(arguments, "metrics.listen=127.0.0.1:0");
  for (const std::string& setting : files.producer_settings) Set(arguments, setting);
  return arguments;
}

std::vector<std::string> ConsumerArguments(const PairFiles& files, const std::string& producer_address) {
  std::vector<std::string> arguments = {"--config", ShippedConfig("consumer")};
  Set(arguments, absl::StrCat("model.path=", files.consumer_model));
  Set(arguments, absl::StrCat("model.adapter=\"", files.consumer_adapter, "\""));
  Set(arguments, absl::StrCat("bundle=", files.bundle));
  Set(arguments, absl::StrCat("producer.address=", producer_address));
  Set(arguments, "server.listen=127.0.0.1:0");
  Set(arguments, "metrics.listen=127.0.0.1:0");
  for (const std::string& setting : files.consumer_settings) Set(arguments, setting);
  return arguments;
}

absl::StatusOr<std::unique_ptr<DaemonPair>> DaemonPair::Start(const PairFiles& files) {
  std::unique_ptr<DaemonPair> pair(new DaemonPair(files));
  SCD_ASSIGN_OR_RETURN(pair->producer_, DaemonProcess::Start("scd-producer", ProducerArguments(files)));
  SCD_ASSIGN_OR_RETURN(
      pair->consumer_,
      DaemonProcess::Start("scd-consumer", ConsumerArguments(files, pair->producer_->address())));
  pair->client_ = std::make_unique<ConsumerClient>(pair->consumer_->port());
  pair->producer_stub_ = v1::Producer::NewStub(LoopbackChannel(pair->producer_->port()));
  return pair;
}

void DaemonPair::KillProducer() {
  producer_->Signal(SIGKILL);
  producer_->Wait(absl::Seconds(10)).IgnoreError();
}

absl::Status DaemonPair::RestartProducer() {
  const int port = producer_->port();
  KillProducer();
  SCD_ASSIGN_OR_RETURN(producer_, DaemonProcess::Start("scd-producer", ProducerArguments(files_, port)));
  return absl::OkStatus();
}

bool DaemonPair::BecomesIdle(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  do {
    const v1::ConsumerInfo consumer = client_->Info();
    grpc::ClientContext context;
    v1::ProducerInfo producer;
    const bool answered = producer_stub_->Info(&context, v1::ProducerInfoRequest(), &producer).ok();
    if (answered && producer.requests_in_flight() == 0 && consumer.kv_pages_total() > 0 &&
        consumer.requests_in_flight() == 0 && consumer.kv_pages_used() == 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>(seconds));
  return false;
}

}  // namespace scd::testing
