#include "eval/drift/drift_command.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/attentive_model.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int32_t> SomeTokens(std::int32_t count, std::int32_t seed) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((i * 37 + seed * 11) % 250);
  return tokens;
}

// tests/data/tiny-llama with larger weights on both sides.
class DriftCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(testing::WriteAttentiveModel(dir_.File("model")).ok());
    options_.producer = options_.consumer = {.path = dir_.File("model"), .adapter = "", .config = ""};
    const auto model = OpenModel(options_.producer);
    ASSERT_TRUE(model.ok()) << model.status();
    const BundleModel side{"attentive", model->digest, model->tokenizer->digest()};
    testing::TinyBundleOptions bundle;
    bundle.identity = true;
    ASSERT_TRUE(testing::WriteTinyBundle(dir_.File("identity"), model->config, side, side, bundle).ok());
    ASSERT_TRUE(
        testing::WriteTinyBundle(dir_.File("other"), model->config, side, testing::MadeUpModel("b"), bundle)
            .ok());
    options_.bundle = dir_.File("identity");
    options_.backend = {.device = "cpu", .num_threads = 2, .math = MathMode::kF32};
    for (std::int32_t i = 0; i < 4; ++i) {
      options_.prefixes.push_back({SomeTokens(40 + 7 * i, i), SomeTokens(9, i + 20)});
    }
    options_.decode_positions = 8;
    for (DriftMode& mode : options_.modes) mode.plan.codec = Codec::kF32;
  }

  void ExpectError(const DriftOptions& options, absl::StatusCode code, const std::string& text) {
    const absl::Status status = RunDrift(options, nullptr, {}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const testing::TempDir dir_;
  DriftOptions options_;
};

TEST_F(DriftCommandTest, ASectionOfTheResultsDocument) {
  std::vector<std::int64_t> done;
  const auto section = RunDrift(options_, [&](std::int64_t n) { done.push_back(n); }, {});
  ASSERT_TRUE(section.ok()) << section.status();
  EXPECT_THAT(done, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ((*section)["layers"], nlohmann::json({0, 1, 2, 3}));
  EXPECT_EQ((*section)["prefixes"], 4);
  EXPECT_EQ((*section)["decode_positions"], 8);
  const std::string note = (*section)["note"];
  EXPECT_THAT(note, HasSubstr("no Lipschitz constants"));
  EXPECT_THAT(note, HasSubstr("the first 2 prefixes"));
  ASSERT_EQ((*section)["curves"].size(), 2u);
  for (const nlohmann::json& curve : (*section)["curves"]) {
    const bool is_scd = curve["mode"] == "scd";
    EXPECT_TRUE(is_scd || curve["mode"] == "reuse");
    EXPECT_EQ(curve["patch_layers"],
              is_scd ? nlohmann::json({1}) : nlohmann::json(nlohmann::json::value_t::array));
    for (const char* field : {"kv_error_k", "kv_error_v", "eps"}) {
      EXPECT_THAT(curve[field].get<std::vector<double>>(), Each(::testing::Lt(1e-5))) << field;
      EXPECT_EQ(curve[field].size(), 4u);
    }
    for (const char* field : {"alpha", "beta"}) EXPECT_EQ(curve[field].size(), 4u) << field;
    EXPECT_TRUE(curve["alpha"][0].is_null());  // nothing enters the first layer
    for (const char* field : {"hidden_error", "predicted"}) {
      EXPECT_THAT(curve[field].get<std::vector<double>>(), Each(::testing::Lt(1e-4))) << field;
      EXPECT_EQ(curve[field].size(), 5u);
    }
    EXPECT_TRUE(curve["violated"].is_array());
  }
}

TEST_F(DriftCommandTest, EstimatesAndMeasurementsComeFromDifferentPrefixes) {
  options_.modes = {
      {"reuse",
       {.rank_k = 8, .rank_v = 8, .patch_layers = std::vector<std::int64_t>{}, .codec = Codec::kF32}}};
  const auto one = *RunDrift(options_, nullptr, {});
  // Other prefixes to measure: the same estimates.
  std::swap(options_.prefixes[2], options_.prefixes[3]);
  options_.prefixes.pop_back();
  options_.prefixes.insert(options_.prefixes.begin() + 2, options_.prefixes[2]);
  const auto two = *RunDrift(options_, nullptr, {});
  const nlohmann::json& a = one["curves"][0];
  const nlohmann::json& b = two["curves"][0];
  EXPECT_EQ(a["predicted"], b["predicted"]);
  EXPECT_NE(a["hidden_error"], b["hidden_error"]);
  EXPECT_NE(a["kv_error_k"], b["kv_error_k"]);
  EXPECT_GT(a["hidden_error"][4].get<double>(), 0.01);
  // Other prefixes to estimate from: the same measurements.
  std::swap(options_.prefixes[0], options_.prefixes[1]);
  options_.prefixes[0] = {SomeTokens(50, 9), SomeTokens(9, 9)};
  const auto three = *RunDrift(options_, nullptr, {});
  EXPECT_EQ(three["curves"][0]["hidden_error"], b["hidden_error"]);
  EXPECT_NE(three["curves"][0]["predicted"], b["predicted"]);
}

TEST_F(DriftCommandTest, SaysWhatIsWrong) {
  using enum absl::StatusCode;
  DriftOptions options = options_;
  options.prefixes.resize(1);
  ExpectError(options, kInvalidArgument, "at least 2");
  options = options_;
  options.modes.clear();
  ExpectError(options, kInvalidArgument, "no modes");
  options = options_;
  options.decode_positions = 0;
  ExpectError(options, kInvalidArgument, "decode_positions is 0");
  options.decode_positions = 11;
  ExpectError(options, kInvalidArgument, "prefix 0 is followed by 9");
  options = options_;
  options.prefixes[3].prompt.resize(4);
  ExpectError(options, kInvalidArgument, "prefix 3: drift: a prompt of 4 tokens");
  options = options_;
  options.prefixes[1].prompt[5] = 1 << 20;
  ExpectError(options, kInvalidArgument, "prefix 1");
  options = options_;
  options.prefixes[0].prompt.resize(600, 1);
  ExpectError(options, kOutOfRange, "the consumer holds 512");
  options = options_;
  options.bundle = dir_.File("other");
  ExpectError(options, kFailedPrecondition, "another consumer model");
  options.bundle = dir_.File("nowhere");
  ExpectError(options, kNotFound, "nowhere");
  options = options_;
  options.modes[0].plan.rank_k = 1000;
  ExpectError(options, kInvalidArgument, "rank_k");
  std::stop_source stop;
  const auto on_prefix = [&](std::int64_t n) {
    if (n == 2) stop.request_stop();
  };
  EXPECT_EQ(RunDrift(options_, on_prefix, stop.get_token()).status().code(), kCancelled);
}

}  // namespace
}  // namespace scd
