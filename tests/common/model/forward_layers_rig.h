// A model on a backend, a whole pass of it, and pieces of passes to compare with that.
#ifndef SCD_TESTS_COMMON_MODEL_FORWARD_LAYERS_RIG_H_
#define SCD_TESTS_COMMON_MODEL_FORWARD_LAYERS_RIG_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/model/model_source.h"
#include "common/model/transformer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/support/random_weights.h"
#include "tests/support/shared_data.h"

namespace scd::testing {

inline constexpr std::int64_t kMaxRows = 32;
inline constexpr std::int64_t kNumTokens = 29;
inline constexpr float kUntouched = 7777.0f;

using Row = std::vector<float>;
using Rows = std::vector<Row>;

struct Subject {
  std::string name;
  std::function<void(ModelConfig&)> change;  // of SmallConfig; none: the golden model of that name
};

inline const std::vector<Subject>& Subjects() {
  static const auto* const subjects = new std::vector<Subject>{
      {"tiny-llama", nullptr},
      {"tiny-llama3", nullptr},
      {"tiny-mistral", nullptr},
      {"tiny-qwen2", nullptr},
      {"tiny-qwen3", nullptr},
      {"all_biases", [](ModelConfig& c) { c.qkv_bias = c.o_bias = c.mlp_bias = true; }},
      {"qk_norm", [](ModelConfig& c) { c.qk_norm = true; }},
      {"window_in_some_layers",
       [](ModelConfig& c) {
         c.sliding_window = {0, 3, 9};
       }},
  };
  return *subjects;
}

// Keeps the residual stream that enters each layer.
class ResidualTap final : public LayerTap {
 public:
  TapKinds Wanted(std::int64_t) const override { return TapKind::kResidual; }
  absl::Status OnLayer(const LayerView& view) override {
    order.push_back(view.layer);
    Rows& rows = entering[view.layer];
    for (std::int64_t i = 0; i < view.residual.dim(0); ++i) {
      rows.emplace_back(view.residual.row<float>(i), view.residual.row<float>(i) + view.residual.dim(1));
    }
    return after_layer(view.layer);
  }

  std::function<absl::Status(std::int64_t)> after_layer = [](std::int64_t) { return absl::OkStatus(); };
  std::vector<std::int64_t> order;
  std::map<std::int64_t, Rows> entering;
};

class ForwardLayersTest : public ::testing::TestWithParam<std::tuple<std::string, Subject>> {
 protected:
  void SetUp() override {
    const auto& [device, subject] = GetParam();
    if (subject.change) {
      config_ = SmallConfig();
      subject.change(config_);
      weights_ = std::make_unique<RandomWeights>(config_);
    } else {
      auto model = OpenModel({.path = TestDataPath(subject.name), .adapter = "", .config = ""});
      ASSERT_TRUE(model.ok()) << model.status();
      config_ = model->config;
      weights_ = std::move(model->weights);
    }
    backend_ = *CreateBackend({.device = device, .num_threads = 2, .math = MathMode::kF32});
    transformer_ = *Transformer::Create(config_, *weights_, *backend_);
    workspace_ = *transformer_->CreateWorkspace(kMaxRows, kMaxRows);
    cache_ = *PagedKvCache::Create(
        *backend_, {config_.num_layers, config_.num_kv_heads, config_.head_dim, 8, DType::kF32}, 40);
    for (std::int64_t i = 0; i < kNumTokens; ++i) {
      tokens_.push_back(
          static_cast<std::int32_t>((i * 17 + 3) % std::min<std::int64_t>(config_.vocab_size, 500)));
    }
    whole_ = NewSequence();
    const ForwardChunk chunk{whole_.get(), tokens_, 0, LogitsWanted::kAll};
    const absl::Status status = transformer_->Forward(*workspace_, {&chunk, 1}, {.tap = &entering_});
    ASSERT_TRUE(status.ok()) << status;
    const ConstTensorView logits = workspace_->logits();
    for (std::int64_t i = 0; i < kNumTokens; ++i) {
      logits_.emplace_back(logits.row<float>(i), logits.row<float>(i) + logits.dim(1));
    }
  }

  // Every slot of its pages holds kUntouched.
  std::unique_ptr<Sequence> NewSequence() {
    auto sequence = *Sequence::Create(*cache_, kNumTokens);
    for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const PagedKv kv = sequence->view(layer);
      for (std::int64_t page = 0; page < kv.block_table.dim(0); ++page) {
        for (const TensorView& pages : {kv.k_pages, kv.v_pages}) {
          float* const slots = pages.row<float>(kv.block_table.as<std::int32_t>()[page]);
          std::fill(slots, slots + pages.stride(0), kUntouched);
        }
      }
    }
    return sequence;
  }

  // K and V of one position of one layer.
  Row KvAt(const Sequence& sequence, std::int64_t layer, std::int64_t position) const {
    const PagedKv kv = sequence.view(layer);
    Row row;
    for (const TensorView& pages : {kv.k_pages, kv.v_pages}) {
      const float* const page = pages.row<float>(kv.block_table.as<std::int32_t>()[position / 8]);
      for (std::int64_t head = 0; head < config_.num_kv_heads; ++head) {
        const float* const slot = page + head * pages.stride(1) + (position % 8) * pages.stride(2);
        row.insert(row.end(), slot, slot + config_.head_dim);
      }
    }
    return row;
  }

  // Rows of the residual stream, contiguous.
  std::vector<float> Flat(const Rows& rows, std::int64_t begin, std::int64_t count) const {
    std::vector<float> flat;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      flat.insert(flat.end(), rows[static_cast<std::size_t>(i)].begin(),
                  rows[static_cast<std::size_t>(i)].end());
    }
    return flat;
  }

  ConstTensorView AsRows(const std::vector<float>& flat) const {
    return ConstTensorView(flat.data(), DType::kF32, RowsShape(flat));
  }
  TensorView AsRows(std::vector<float>& flat) const {
    return TensorView(flat.data(), DType::kF32, RowsShape(flat));
  }

  // Runs the layers in chunks of that many rows, each fed with `in`; what leaves the last layer.
  Rows Run(Sequence& sequence, std::int64_t first, std::int64_t last, const Rows& in, std::int64_t chunk_rows,
           bool wants_out) {
    Rows out;
    for (std::int64_t begin = 0; begin < kNumTokens; begin += chunk_rows) {
      const std::int64_t count = std::min(chunk_rows, kNumTokens - begin);
      const std::vector<float> flat = Flat(in, begin, count);
      std::vector<float> leaving(flat.size(), kUntouched);
      LayerChunk chunk{.sequence = &sequence,
                       .residual = AsRows(flat),
                       .first_position = begin,
                       .first_layer = first,
                       .last_layer = last};
      if (wants_out) chunk.residual_out = AsRows(leaving);
      const absl::Status status = transformer_->ForwardLayers(*workspace_, chunk);
      EXPECT_TRUE(status.ok()) << status;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto row = leaving.begin() + i * config_.hidden_size;
        out.emplace_back(row, row + config_.hidden_size);
      }
    }
    return out;
  }

  // Equal in every bit where the batches were, else to the last digits of f32 sums.
  static void ExpectEqual(const Row& actual, const Row& expected, bool exactly) {
    ASSERT_EQ(actual.size(), expected.size());
    float magnitude = 1.0f;
    for (const float value : expected) magnitude = std::max(magnitude, std::abs(value));
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (exactly) {
        ASSERT_EQ(actual[i], expected[i]) << "at " << i;
      } else {
        ASSERT_NEAR(actual[i], expected[i], 2e-6f * magnitude) << "at " << i;
      }
    }
  }

  void ExpectKv(const Sequence& sequence, std::int64_t first, std::int64_t last, bool exactly) {
    for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
      for (std::int64_t p = 0; p < kNumTokens; ++p) {
        SCOPED_TRACE(::testing::Message() << "layer " << layer << ", position " << p);
        const Row kv = KvAt(sequence, layer, p);
        if (layer >= first && layer <= last) {
          ExpectEqual(kv, KvAt(*whole_, layer, p), exactly);
        } else {
          EXPECT_THAT(kv, ::testing::Each(kUntouched));
        }
        if (HasFatalFailure()) return;
      }
    }
  }

  // The model's head, written down once more.
  Row Logits(const Row& residual) const {
    const std::vector<float> norm = std::move(*weights_->Load(WeightKind::kFinalNorm, -1)).TakeFloats();
    const WeightKind kind = config_.tie_word_embeddings ? WeightKind::kEmbedding : WeightKind::kLmHead;
    const std::vector<float> head = std::move(*weights_->Load(kind, -1)).TakeFloats();
    double squares = 0.0;
    for (const float x : residual) squares += static_cast<double>(x) * x;
    const double scale =
        1.0 / std::sqrt(squares / static_cast<double>(residual.size()) + config_.rms_norm_eps);
    Row logits;
    for (std::int64_t id = 0; id < config_.vocab_size; ++id) {
      double sum = 0.0;
      for (std::size_t i = 0; i < residual.size(); ++i) {
        sum += residual[i] * scale * norm[i] * head[static_cast<std::size_t>(id) * residual.size() + i];
      }
      logits.push_back(static_cast<float>(sum));
    }
    return logits;
  }

  std::int64_t last_layer() const { return config_.num_layers - 1; }

  ModelConfig config_;
  std::unique_ptr<const WeightStore> weights_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Transformer::Workspace> workspace_;
  std::unique_ptr<PagedKvCache> cache_;
  std::vector<std::int32_t> tokens_;
  std::unique_ptr<Sequence> whole_;
  ResidualTap entering_;
  Rows logits_;

 private:
  Shape RowsShape(const std::vector<float>& flat) const {
    return Shape{static_cast<std::int64_t>(flat.size()) / config_.hidden_size, config_.hidden_size};
  }
};

}  // namespace scd::testing

#endif  // SCD_TESTS_COMMON_MODEL_FORWARD_LAYERS_RIG_H_
