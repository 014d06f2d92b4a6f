// The whole way without a wire: a model's forward pass shows its layers to a tap that encodes them, and a
// rebuilder fills another sequence's pages.
#include <gtest/gtest.h>

#include <cmath>

#include "common/bundle/bundle.h"
#include "common/cache/sequence.h"
#include "common/model/transformer.h"
#include "common/translate/layer_encoder.h"
#include "common/translate/layer_rebuilder.h"
#include "kernels/backend_factory.h"
#include "tests/support/random_weights.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

constexpr std::int64_t kTokens = 21;

// Encodes every layer that it is shown, as the plan asks.
class EncodingTap : public LayerTap {
 public:
  EncodingTap(const LayerEncoder& encoder, std::int64_t first_token)
      : encoder_(encoder), workspace_(*encoder.CreateWorkspace(kTokens)), next_(first_token) {}

  TapKinds Wanted(std::int64_t layer) const override {
    return Patched(layer) ? TapKinds(TapKind::kAttentionInput) : TapKind::kKPreRope | TapKind::kV;
  }

  absl::Status OnLayer(const LayerView& view) override {
    const auto add = [&](CodeKind kind, const ConstTensorView& rows) {
      auto code = encoder_.Encode(*workspace_, *view.stream, view.layer, kind, rows, next_);
      if (code.ok()) codes.push_back(*std::move(code));
      return code.status();
    };
    if (Patched(view.layer)) return add(CodeKind::kH, view.attention_input);
    const absl::Status status = add(CodeKind::kK, view.k_pre_rope);
    return status.ok() ? add(CodeKind::kV, view.v) : status;
  }

  std::vector<LayerCode> codes;

 private:
  bool Patched(std::int64_t layer) const {
    return encoder_.plan().layers[static_cast<std::size_t>(layer)].treatment == LayerTreatment::kPatch;
  }

  const LayerEncoder& encoder_;
  const std::unique_ptr<LayerEncoder::Workspace> workspace_;
  const std::int64_t next_;
};

struct Case {
  std::string device;
  Architecture architecture;
};

class RebuiltCacheTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    config_ = testing::SmallConfig();
    config_.architecture = GetParam().architecture;
    config_.qkv_bias = config_.architecture == Architecture::kQwen2;
    config_.qk_norm = config_.architecture == Architecture::kQwen3;
    backend_ = *CreateBackend({.device = GetParam().device, .num_threads = 2, .math = MathMode::kF32});
    transformer_ = *Transformer::Create(config_, testing::RandomWeights(config_), *backend_);
    // The consumer has the same weights and another theta, so that only its own RoPE makes the right K.
    ModelConfig consumer = config_;
    consumer.rope.theta = 1234.0;
    consumer_ = *Transformer::Create(consumer, testing::RandomWeights(config_), *backend_);
    cache_ = *PagedKvCache::Create(
        *backend_, {config_.num_layers, config_.num_kv_heads, config_.head_dim, 8, DType::kF32}, 16);
    testing::TinyBundleOptions options;
    options.identity = true;
    options.candidate_layers = {1, 2};
    options.default_patch_layers = {1};
    const auto written = testing::WriteTinyBundle(dir_.File("bundle"), config_, testing::MadeUpModel("a"),
                                                  testing::MadeUpModel("b"), options);
    ASSERT_TRUE(written.ok()) << written.status();
    bundle_ = *Bundle::Open(dir_.File("bundle"));
    for (std::int32_t i = 0; i < kTokens; ++i) tokens_.push_back((i * 17 + 3) % 50);
  }

  std::unique_ptr<Sequence> Native(const Transformer& model, LayerTap* tap) {
    auto sequence = *Sequence::Create(*cache_, kTokens);
    auto workspace = *model.CreateWorkspace(kTokens, 1);
    const ForwardChunk chunk{
        .sequence = sequence.get(), .tokens = tokens_, .first_position = 0, .logits = LogitsWanted::kLast};
    const absl::Status status = model.Forward(*workspace, {chunk}, {.tap = tap, .cancel = {}});
    EXPECT_TRUE(status.ok()) << status;
    return sequence;
  }

  std::unique_ptr<Sequence> Rebuilt(const LayerPlan& plan) {
    const auto encoder = *LayerEncoder::Create(*bundle_, plan, transformer_->rope(), *backend_);
    EncodingTap tap(*encoder, 0);
    Native(*transformer_, &tap);
    std::vector<KvProjection> projections;
    for (std::int64_t i = 0; i < config_.num_layers; ++i) projections.push_back(consumer_->kv_projection(i));
    const auto rebuilder = *LayerRebuilder::Create(*bundle_, plan, projections, consumer_->rope(), *backend_);
    const auto workspace = *rebuilder->CreateWorkspace(8);
    const auto stream = *backend_->CreateStream();
    auto sequence = *Sequence::Create(*cache_, kTokens);
    EXPECT_EQ(tap.codes.size(), 2 * plan.layers.size() - plan.patch_layers().size());
    for (const LayerCode& code : tap.codes) {
      const absl::Status status = rebuilder->Rebuild(
          *workspace, *stream, code, [&](std::int64_t layer) { return sequence->view(layer); });
      EXPECT_TRUE(status.ok()) << status;
    }
    EXPECT_TRUE(backend_->Synchronize(*stream).ok());
    EXPECT_TRUE(sequence->MarkValid(0, kTokens).ok());
    return sequence;
  }

  // K and V of every layer and position.
  std::vector<float> Contents(const Sequence& sequence) {
    std::vector<float> contents;
    for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const PagedKv view = sequence.view(layer);
      for (const TensorView& pages : {view.k_pages, view.v_pages}) {
        for (std::int64_t p = 0; p < kTokens; ++p) {
          for (std::int64_t head = 0; head < config_.num_kv_heads; ++head) {
            const float* const slot = pages.row<float>(view.block_table.as<std::int32_t>()[p / 8]) +
                                      (head * 8 + p % 8) * config_.head_dim;
            contents.insert(contents.end(), slot, slot + config_.head_dim);
          }
        }
      }
    }
    return contents;
  }

  // Largest difference over the largest value.
  static double Distance(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference = std::max<double>(difference, std::abs(a[i] - b[i]));
      largest = std::max<double>(largest, std::abs(b[i]));
    }
    return difference / largest;
  }

  const testing::TempDir dir_;
  ModelConfig config_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_, consumer_;
  std::unique_ptr<PagedKvCache> cache_;
  std::unique_ptr<Bundle> bundle_;
  std::vector<std::int32_t> tokens_;
};

// Layers after the first see the producer's own hidden states, which another theta changes; with the same
// theta (below) they are the consumer's too.
TEST_P(RebuiltCacheTest, IdentityBundleGivesTheConsumersFirstLayer) {
  const auto plan = bundle_->ResolvePlan({.codec = Codec::kF32});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto rebuilt = Contents(*Rebuilt(*plan));
  const auto native = Contents(*Native(*consumer_, nullptr));
  const auto producer = Contents(*Native(*transformer_, nullptr));
  const auto first_layer = [&](const std::vector<float>& all) {
    return std::vector<float>(all.begin(), all.begin() + static_cast<long>(all.size()) / config_.num_layers);
  };
  EXPECT_LT(Distance(first_layer(rebuilt), first_layer(native)), 1e-5);
  EXPECT_GT(Distance(first_layer(producer), first_layer(native)), 0.1);
}

TEST_P(RebuiltCacheTest, IdentityBundleOfTheSameModelGivesTheNativeCache) {
  consumer_ = *Transformer::Create(config_, testing::RandomWeights(config_), *backend_);
  const auto native = Contents(*Native(*consumer_, nullptr));
  for (const auto& patched : std::vector<std::vector<std::int64_t>>{{}, {1}, {1, 2}}) {
    const auto plan = bundle_->ResolvePlan({.patch_layers = patched, .codec = Codec::kF32});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LT(Distance(Contents(*Rebuilt(*plan)), native), 1e-5) << plan->ToString();
  }
  const auto plan = bundle_->ResolvePlan({.codec = Codec::kBF16});
  const double rounded = Distance(Contents(*Rebuilt(*plan)), native);
  EXPECT_LT(rounded, 1.0 / 64);
  EXPECT_GT(rounded, 1e-6);  // bf16 really rounds
}

TEST_P(RebuiltCacheTest, RawStateIsTheProducersOwn) {
  const auto producer = Contents(*Native(*transformer_, nullptr));
  const auto rebuilt = [&](StateForm form, Codec codec) {
    const auto plan = bundle_->ResolvePlan({.form = form, .codec = codec});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return Contents(*Rebuilt(*plan));
  };
  // As the producer roped it: its cache, bit for bit in f32.
  EXPECT_EQ(rebuilt(StateForm::kRawRoped, Codec::kF32), producer);
  // Roped by the consumer, which has the same weights: its own first layer.
  const auto reroped = rebuilt(StateForm::kRaw, Codec::kF32);
  const auto native = Contents(*Native(*consumer_, nullptr));
  const auto layer_size = static_cast<long>(native.size()) / config_.num_layers;
  EXPECT_LT(Distance({reroped.begin(), reroped.begin() + layer_size},
                     {native.begin(), native.begin() + layer_size}),
            1e-5);
  EXPECT_GT(Distance(reroped, producer), 0.1);
  // Fewer bits, more error, never none.
  double last = 0;
  for (const Codec codec : {Codec::kBF16, Codec::kInt8, Codec::kInt4}) {
    const double distance = Distance(rebuilt(StateForm::kRawRoped, codec), producer);
    EXPECT_GT(distance, last) << CodecName(codec);
    EXPECT_LT(distance, codec == Codec::kInt4 ? 0.1 : 0.01) << CodecName(codec);
    last = distance;
  }
}

TEST_P(RebuiltCacheTest, DecodeFromTheRebuiltCacheContinuesAsTheModelWould) {
  consumer_ = *Transformer::Create(config_, testing::RandomWeights(config_), *backend_);
  const auto plan = bundle_->ResolvePlan({.codec = Codec::kF32});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto last = std::vector<std::int32_t>{tokens_.back()};
  std::vector<std::vector<float>> logits;
  for (const auto& sequence : {Native(*consumer_, nullptr), Rebuilt(*plan)}) {
    auto workspace = *consumer_->CreateWorkspace(1, 1);
    const ForwardChunk chunk{.sequence = sequence.get(),
                             .tokens = last,
                             .first_position = kTokens - 1,
                             .logits = LogitsWanted::kLast};
    ASSERT_TRUE(consumer_->Forward(*workspace, {chunk}).ok());
    const ConstTensorView row = workspace->logits();
    logits.emplace_back(row.as<float>(), row.as<float>() + row.num_elements());
  }
  EXPECT_LT(Distance(logits[1], logits[0]), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RebuiltCacheTest,
    ::testing::Values(Case{"reference", Architecture::kLlama}, Case{"reference", Architecture::kQwen2},
                      Case{"reference", Architecture::kQwen3}, Case{"cpu", Architecture::kLlama},
                      Case{"cpu", Architecture::kQwen3}),
    [](const auto& info) {
      return info.param.device + "_" + std::string(ArchitectureName(info.param.architecture));
    });

}  // namespace
}  // namespace scd
