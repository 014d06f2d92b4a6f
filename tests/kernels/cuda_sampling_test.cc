// Tokens drawn from logits that stay on the cuda backend's device are those of the whole rows.
#include <cmath>
#include <random>

#include "consumer/step_logits.h"
#include "gtest/gtest.h"
#include "tests/kernels/backend_rig.h"
#include "tests/kernels/cuda_options.h"

namespace scd::testing {
namespace {

constexpr std::int64_t kVocabulary = 1500;

// Peaked rows, with equal logits among the best.
std::vector<float> Logits(std::int64_t rows, unsigned seed) {
  std::vector<float> logits = Random(rows * kVocabulary, seed);
  for (float& logit : logits) logit = std::round(logit * logit * logit * 32.0f) / 4.0f;
  return logits;
}

TEST(CudaSamplingTest, TokensAreThoseOfTheWholeRow) {
  BackendRig rig(TestedCudaOptions(MathMode::kBF16));
  const auto step = *StepLogits::Create(rig.backend(), 5, kVocabulary);
  const SamplingParams params[] = {
      {},
      {.temperature = 0.7f, .top_k = 40, .num_top_logprobs = 20},
      {.temperature = 0.9f, .top_p = 0.8f, .seed = 3},
      {.temperature = 1.3f, .seed = 4},
      {.temperature = 0.6f, .min_p = 0.2f, .repetition_penalty = 1.2f, .num_top_logprobs = 2},
  };
  std::vector<Sampler> of_device(std::begin(params), std::end(params));
  std::vector<Sampler> of_host(std::begin(params), std::end(params));
  std::vector<float> temperatures;
  for (const SamplingParams& p : params) temperatures.push_back(p.temperature);
  std::int64_t num_whole = 0;
  for (unsigned turn = 0; turn < 10; ++turn) {
    const std::vector<float> logits = Logits(5, turn);
    const RigTensor device = rig.Put({5, kVocabulary}, logits);
    ExpectOk(step->Begin(rig.stream(), device.view, temperatures));
    for (std::size_t row = 0; row < 5; ++row) {
      const auto index = static_cast<std::int64_t>(row);
      const absl::Span<const float> whole(logits.data() + index * kVocabulary, kVocabulary);
      const auto top = step->Top(index);
      ASSERT_TRUE(top.has_value());
      const std::vector<std::int32_t> seen = {top->ids[0], top->ids[2], 5};
      const auto expected = *of_host[row].Sample(whole, seen);
      auto token = *of_device[row].SampleTop(*top, seen);
      if (!token) {
        ++num_whole;
        const auto fetched = step->Whole(index);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        ASSERT_EQ(std::vector<float>(fetched->begin(), fetched->end()),
                  std::vector<float>(whole.begin(), whole.end()));
        token = *of_device[row].Sample(*fetched, seen);
      }
      EXPECT_EQ(token->id, expected.id) << "row " << row;
      EXPECT_NEAR(token->logprob, expected.logprob, 1e-5);
      ASSERT_EQ(token->top.size(), expected.top.size());
      for (std::size_t i = 0; i < expected.top.size(); ++i) {
        EXPECT_EQ(token->top[i].id, expected.top[i].id);
        EXPECT_NEAR(token->top[i].logprob, expected.top[i].logprob, 1e-5);
      }
    }
  }
  EXPECT_EQ(num_whole, 10) << "only temperature without cuts needs whole rows";
}

TEST(CudaSamplingTest, OneBadRowDoesNotSpoilTheOthers) {
  BackendRig rig(TestedCudaOptions(MathMode::kF32));
  const auto step = *StepLogits::Create(rig.backend(), 2, kVocabulary);
  std::vector<float> logits = Logits(2, 1);
  logits[700] = NAN;
  const RigTensor device = rig.Put({2, kVocabulary}, logits);
  ExpectOk(step->Begin(rig.stream(), device.view, {0.0f, 0.0f}));
  Sampler sampler({});
  EXPECT_EQ(sampler.SampleTop(*step->Top(0), {}).status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(sampler.SampleTop(*step->Top(1), {}).ok());
}

}  // namespace
}  // namespace scd::testing
