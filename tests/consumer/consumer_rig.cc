#include "tests/consumer/consumer_rig.h"

#include <chrono>
#include <iostream>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model/model_source.h"
#include "consumer/consumer_daemon.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "producer/producer_daemon.h"
#include "tests/support/attentive_model.h"
#include "tests/support/loopback.h"
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

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  bundle.untranslatable_ids = options.untranslatable_ids;
  OrDie(WriteTinyBundle(bundle_, model.config, side, side, bundle));

  StartProducer();
  hostile_ = std::make_unique<HostileProducer>(producer_->address());
  const std::string transfer =
      options.with_bundle ? absl::StrCat("bundle: ", bundle_, "\nproducer: {address: \"", hostile_->address(),
                                         "\", transfer_timeout_ms: ", options.transfer_timeout_ms,
                                         "}\nplan: {codec: f32, ", options.plan, "}\n")
                          : std::string("mode: local\n");
  consumer_ = OrDie(InProcessDaemon::Start(
      std::make_unique<ConsumerDaemon>(),
      absl::StrCat("model: {path: ", model_, "}\nthreads: 1\nmath: f32\n", transfer,
                   "kv_cache: {pages: 64, page_tokens: 16}\n", options.consumer_yaml)));
  stub_ = v1::Consumer::NewStub(LoopbackChannel(consumer_->port()));
}

void ConsumerRig::StartProducer(int port) {
  producer_ = OrDie(InProcessDaemon::Start(
      std::make_unique<ProducerDaemon>(),
      absl::StrCat("model: {path: ", model_, "}\nthreads: 1\nmath: f32\nbundles: [", bundle_,
                   "]\nprefill: {max_prompt_tokens: 512, chunk_tokens: 64}\ncode_store: {capacity_mib: ",
                   options_.code_store_mib, ", block_tokens: 16}\n"),
      port));
}

std::vector<std::int32_t> ConsumerRig::Prompt(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int32_t>(random() % 250));
  return ids;
}

v1::GenerateRequest ConsumerRig::Request(const std::vector<std::int32_t>& prompt, const std::string& mode,
                                         v1::Policy policy, std::uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.end());
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  request.mutable_transfer()->set_mode(mode);
  request.mutable_transfer()->set_policy(policy);
  return request;
}

Answer ConsumerRig::Generate(const v1::GenerateRequest& request, double deadline_seconds) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<std::int64_t>(deadline_seconds * 1000)));
  const auto start = std::chrono::steady_clock::now();
  const auto reader = stub_->Generate(&context, request);
  Answer answer;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_token()) {
      answer.ids.push_back(response.token().id());
      answer.text += response.token().text();
      answer.tokens.push_back(response.token());
    } else {
      answer.done = response.done();
      answer.text += response.done().text();
    }
  }
  answer.status = reader->Finish();
  answer.seconds = SecondsSince(start);
  return answer;
}

grpc::Status ConsumerRig::Score(const v1::ScoreRequest& request, v1::ScoreResponse* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  return stub_->Score(&context, request, response);
}

v1::ConsumerInfo ConsumerRig::Info() {
  grpc::ClientContext context;
  v1::ConsumerInfo info;
  const grpc::Status status = stub_->Info(&context, v1::ConsumerInfoRequest(), &info);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return info;
}

bool ConsumerRig::BecomesIdle(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  do {
    const v1::ConsumerInfo info = Info();
    if (info.requests_in_flight() == 0 && info.kv_pages_used() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (SecondsSince(start) < seconds);
  return false;
}

}  // namespace scd::testing
