#include "tests/producer/producer_rig.h"

#include <cstdlib>
#include <iostream>
#include <random>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache/kv_cache_settings.h"
#include "common/cache/paged_kv_cache.h"
#include "common/cache/sequence.h"
#include "kernels/backend_factory.h"
#include "producer/encoding_tap.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_bundle.h"

namespace scd::testing {
namespace {

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "test rig: " << status << std::endl;
  std::abort();
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

}  // namespace

TinyProducer::TinyProducer() {
  // The reference backend computes each row by itself, so codes do not depend on chunks.
  backend_ = std::make_unique<GatedBackend>(Value(CreateBackend({.device = "reference"})));
  model_ = Value(OpenModel({.path = TestDataPath("tiny-llama"), .adapter = "", .config = ""}));
  transformer_ = Value(Transformer::Create(model_.config, *model_.weights, *backend_));
  const BundleModel producer = {"tiny", model_.digest, model_.tokenizer->digest()};
  for (const std::uint32_t seed : {1u, 2u}) {
    TinyBundleOptions options;
    options.seed = seed;
    options.max_rank_k = 16;
    options.max_rank_v = 16;
    options.untranslatable_ids = {1000, 1001};
    folders_.push_back(dir_.File("bundle" + std::to_string(seed)));
    Check(WriteTinyBundle(folders_.back(), model_.config, producer,
                          MadeUpModel("expert" + std::to_string(seed)), options)
              .status());
  }
  bundles_ = Value(BundleSet::Open(folders_, model_.config, model_.digest, model_.tokenizer->digest()));
}

LayerPlan TinyProducer::Plan(Codec codec) const {
  PlanRequest request;
  request.codec = codec;
  return Value(bundle(0).ResolvePlan(request));
}

TinyProducer& SharedTinyProducer() {
  static TinyProducer producer;
  return producer;
}

std::vector<std::int32_t> TestTokens(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 1000);
  return tokens;
}

std::vector<std::int32_t> Joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void Append(CodesByColumn& codes, const LayerCode& code) {
  codes[{code.layer, code.kind}] += code.payload;
}

CodesByColumn ExpectedCodes(const Bundle& bundle, const LayerPlan& plan,
                            const std::vector<std::int32_t>& tokens, std::int64_t first_token) {
  TinyProducer& tiny = SharedTinyProducer();
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const KvLayout layout = LayoutFor({}, tiny.model().config);
  const auto cache = Value(PagedKvCache::Create(tiny.backend(), layout, num_tokens / layout.page_tokens + 1));
  const auto sequence = Value(Sequence::Create(*cache, num_tokens));
  const auto workspace = Value(tiny.transformer().CreateWorkspace(num_tokens, 0));
  EncoderCache encoders(tiny.transformer().rope(), tiny.backend(), num_tokens, 1);
  const ReadyEncoder encoder = Value(encoders.Get(bundle, plan));
  CodesByColumn codes;
  EncodingTap tap(encoder, 0, num_tokens, first_token, [&codes](LayerCode code) { Append(codes, code); });
  const ForwardChunk chunk = {.sequence = sequence.get(), .tokens = tokens};
  Check(tiny.transformer().Forward(*workspace, absl::MakeConstSpan(&chunk, 1), {.tap = &tap}));
  return codes;
}

}  // namespace scd::testing
