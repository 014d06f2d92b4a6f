#include "common/model/rope.h"

#include <cmath>

#include "common/io/json.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

RopeConfig ConfigOf(const nlohmann::json& c) {
  RopeConfig config;
  const std::string type = c["type"];
  config.type = type == "linear"   ? RopeType::kLinear
                : type == "llama3" ? RopeType::kLlama3
                : type == "yarn"   ? RopeType::kYarn
                                   : RopeType::kDefault;
  config.theta = c["theta"];
  config.factor = c.value("factor", 1.0);
  config.low_freq_factor = c.value("low_freq_factor", config.low_freq_factor);
  config.high_freq_factor = c.value("high_freq_factor", config.high_freq_factor);
  config.original_max_positions = c.value("original", std::int64_t{0});
  config.beta_fast = c.value("beta_fast", config.beta_fast);
  config.beta_slow = c.value("beta_slow", config.beta_slow);
  if (c.contains("attention_factor")) config.attention_factor = c["attention_factor"].get<double>();
  if (c.contains("mscale")) config.mscale = c["mscale"].get<double>();
  if (c.contains("mscale_all_dim")) config.mscale_all_dim = c["mscale_all_dim"].get<double>();
  config.truncate = c.value("truncate", true);
  return config;
}

// tests/data/rope/make_expected.py says what is expected and why.
TEST(RopeTest, FrequenciesOfEveryScalingKind) {
  const auto cases = ParseJsonFile(testing::TestDataPath("rope/expected.json"));
  ASSERT_TRUE(cases.ok()) << cases.status();
  EXPECT_EQ(cases->size(), 14u);
  for (const nlohmann::json& c : *cases) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const RopeFrequencies f = ComputeRopeFrequencies(ConfigOf(c), c["head_dim"]);
    EXPECT_NEAR(f.attention_factor, c["attention_scaling"].get<double>(), 1e-9);
    ASSERT_EQ(f.inverse.size(), c["inverse"].size());
    for (std::size_t i = 0; i < f.inverse.size(); ++i) {
      const double expected = c["inverse"][i];
      EXPECT_NEAR(f.inverse[i], expected, 3e-7 * expected) << "frequency " << i;
    }
  }
}

TEST(RopeTest, TablesHoldScaledCosinesAndSines) {
  const auto backend = *CreateBackend({.device = "reference"});
  RopeFrequencies f;
  f.inverse = {1.0f, 0.25f, 1e-3f};
  f.attention_factor = 1.25;
  const auto tables = RopeTables::Create(*backend, f, 100);
  ASSERT_TRUE(tables.ok()) << tables.status();
  const RopeTable& table = (*tables)->table();
  ASSERT_EQ(table.cos.shape(), Shape({100, 3}));
  ASSERT_EQ(table.sin.shape(), Shape({100, 3}));
  for (std::int64_t p : {0, 1, 7, 99}) {
    for (std::int64_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(p) * f.inverse[static_cast<std::size_t>(i)];
      EXPECT_NEAR(table.cos.row<float>(p)[i], 1.25 * std::cos(angle), 1e-5);
      EXPECT_NEAR(table.sin.row<float>(p)[i], 1.25 * std::sin(angle), 1e-5);
    }
  }
}

TEST(RopeTest, RefusesEmptyTables) {
  const auto backend = *CreateBackend({.device = "reference"});
  RopeFrequencies f;
  EXPECT_EQ(RopeTables::Create(*backend, f, 10).status().code(), absl::StatusCode::kInvalidArgument);
  f.inverse = {1.0f};
  EXPECT_EQ(RopeTables::Create(*backend, f, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace scd
