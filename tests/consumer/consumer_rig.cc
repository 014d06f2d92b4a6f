#include "tests/consumer/consumer_rig.h"

#include <iostream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model/model_source.h"
#include "consumer/consumer_daemon.h"
#include "producer/producer_daemon.h"
#include "tests/support/attentive_model.h"
#include "tests/support/tiny_bundle.h"

namespace scd::testing {
namespace {

[[noreturn]] void Die(const absl::Status& status) {
  std::cerr << status << std::endl;
  std::abort();
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

}  // namespace

ConsumerRig::ConsumerRig(const RigOptions& options)
    : model_(dir_.File("model")), bundle_(dir_.File("bundle")), options_(options) {
  if (const absl::Status status = WriteAttentiveModel(model_); !status.ok()) Die(status);
  const Model model = OrDie(OpenModel({model_, "", ""}));
  const BundleModel side{"tiny-llama", model.digest, model.tokenizer->digest()};
  TinyBundleOptions bundle;
  bundle.identity = true;
  bundle.default_patch_layers = options.patch_layers;
  bundle.fused_model = model_;
  bundle.untranslatable_ids = options.untranslatable_ids;
  OrDie(WriteTinyBundle(bundle_, model.config, side, side, bundle));

  StartProducer();
  hostile_ = std::make_unique<HostileProducer>(producer_->address());
  const std::string transfer =
      options.with_bundle ? absl::StrCat("bundle: ", bundle_, "\nproducer: {address: \"", hostile_->address(),
                                         "\", transfer_timeout_ms: ", options.transfer_timeout_ms,
                                         "}\nplan: {codec: ", options.codec, ", ", options.plan, "}\n")
                          : std::string("mode: local\n");
  consumer_ = OrDie(
      InProcessDaemon::Start(std::make_unique<ConsumerDaemon>(),
                             absl::StrCat("model: {path: ", model_, "}\nthreads: 1\nmath: f32\n", transfer,
                                          "kv_cache: {", options.kv_cache, "}\n", options.consumer_yaml)));
  client_ = std::make_unique<ConsumerClient>(consumer_->port());
}

void ConsumerRig::StartProducer(int port) {
  producer_ = OrDie(InProcessDaemon::Start(
      std::make_unique<ProducerDaemon>(),
      absl::StrCat("model: {path: ", model_, "}\nthreads: 1\nmath: f32\nbundles: [", bundle_,
                   "]\nprefill: {max_prompt_tokens: 512, chunk_tokens: ", options_.chunk_tokens,
                   "}\ncode_store: {capacity_mib: ", options_.code_store_mib,
                   "}\nkv_cache: {page_tokens: ", options_.code_store_block_tokens, "}\n"),
      port));
}

std::vector<std::int32_t> ConsumerRig::Prompt(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(random() % 250));
  return ids;
}

}  // namespace scd::testing
