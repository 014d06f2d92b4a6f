#include "common/model/model_yaml.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

struct Read {
  absl::Status status;
  ModelSource source = {.path = "", .adapter = "", .config = "", .weights = WeightsFormat::kAuto};
  MathMode math = MathMode::kAuto;
};

Read ReadText(const std::string& text, MathMode math = MathMode::kAuto, bool with_math = true) {
  Read out;
  out.math = math;
  const YamlDocument document = YamlDocument::Parse(text, "f.yaml", {}).value();
  YamlReader reader(document);
  ReadModelSource(reader.root(), "model", &out.source, with_math ? &out.math : nullptr);
  out.status = reader.Finish();
  return out;
}

TEST(ModelYamlTest, ReadsEveryField) {
  const Read read = ReadText("model: {path: a, adapter: b, config: c, weights: int4}");
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.source.path, "a");
  EXPECT_EQ(read.source.adapter, "b");
  EXPECT_EQ(read.source.config, "c");
  EXPECT_EQ(read.source.weights, WeightsFormat::kInt4);
  EXPECT_EQ(read.math, MathMode::kAuto);
}

TEST(ModelYamlTest, WhatIsNotSaidStays) {
  const Read read = ReadText("model: {path: a}", MathMode::kBF16);
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.source.weights, WeightsFormat::kAuto);
  EXPECT_EQ(read.math, MathMode::kBF16);
}

TEST(ModelYamlTest, DenseWordsSettleTheMath) {
  EXPECT_EQ(ReadText("model: {path: a, weights: f32}").math, MathMode::kF32);
  EXPECT_EQ(ReadText("model: {path: a, weights: bf16}").math, MathMode::kBF16);
  EXPECT_TRUE(ReadText("model: {path: a, weights: bf16}", MathMode::kBF16).status.ok());
  EXPECT_THAT(std::string(ReadText("model: {path: a, weights: f32}", MathMode::kBF16).status.message()),
              HasSubstr("model.weights: is f32, but math is bf16"));
  EXPECT_THAT(std::string(ReadText("model: {path: a, weights: bf16}", MathMode::kF32).status.message()),
              HasSubstr("model.weights: is bf16, but math is f32"));
  const Read without = ReadText("model: {path: a, weights: f32}", MathMode::kAuto, false);
  EXPECT_TRUE(without.status.ok()) << without.status;
  EXPECT_EQ(without.math, MathMode::kAuto);
}

TEST(ModelYamlTest, OtherWordsAreRefused) {
  EXPECT_THAT(std::string(ReadText("model: {path: a, weights: int5}").status.message()),
              HasSubstr("model.weights"));
}

}  // namespace
}  // namespace scd
