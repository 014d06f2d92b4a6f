#include "common/config/yaml_reader.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Codec { kBf16, kF32 };

struct Config {
  std::string model = "default";
  int threads = 4;
  std::int64_t tokens = 256;
  double lambda = 0.5;
  bool on = true;
  Codec codec = Codec::kBf16;
  std::optional<std::int64_t> rank;
  std::vector<std::int64_t> layers = {7};
  std::vector<std::string> bundles;
  std::optional<std::vector<std::int64_t>> patch;
  std::vector<std::string> names;
};

absl::Status Read(const std::string& text, Config* config, const std::vector<std::string>& overrides = {}) {
  const auto document = YamlDocument::Parse(text, "f.yaml", overrides);
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  YamlSection root = reader.root();
  root.RequiredString("model", &config->model);
  root.Int("threads", &config->threads, {.min = 0, .max = 256});
  root.Bool("on", &config->on);
  YamlSection prefill = root.Section("prefill");
  prefill.Int("chunk_tokens", &config->tokens, {.min = 1, .max = 4096, .unit = "tokens"});
  prefill.Choice("codec", &config->codec, {{"bf16", Codec::kBf16}, {"f32", Codec::kF32}});
  YamlSection plan = root.Section("plan");
  plan.Real("lambda", &config->lambda, {.min = 0, .max = 1});
  plan.Int("rank", &config->rank, {.min = 1, .max = 64});
  plan.Ints("layers", &config->layers, {.min = 0, .max = 31}, {.min = 1, .max = 3});
  plan.IntsOrWord("patch_layers", "auto", &config->patch, {.min = 0, .max = 31});
  root.Strings("bundles", &config->bundles, {.min = 0, .max = 2});
  for (YamlSection& peer : root.Sections("peers", {.max = 2})) {
    std::string name;
    peer.RequiredString("name", &name);
    config->names.push_back(name);
  }
  return reader.Finish();
}

std::string ReadError(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Config config;
  const absl::Status status = Read(text, &config, overrides);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(YamlReaderTest, ReadsEveryType) {
  Config config;
  const absl::Status status = Read(R"(model: 12
threads: 8
on: false
prefill: {chunk_tokens: 128, codec: f32}
plan:
  lambda: 1e-3
  rank: 16
  layers: [1, 2]
  patch_layers: []
bundles:
  - a
  - "b c"
peers:
  - name: x
  - {name: y}
)",
                                   &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.model, "12");
  EXPECT_EQ(config.threads, 8);
  EXPECT_FALSE(config.on);
  EXPECT_EQ(config.tokens, 128);
  EXPECT_EQ(config.codec, Codec::kF32);
  EXPECT_DOUBLE_EQ(config.lambda, 1e-3);
  EXPECT_EQ(config.rank, 16);
  EXPECT_THAT(config.layers, ElementsAre(1, 2));
  ASSERT_TRUE(config.patch.has_value());
  EXPECT_TRUE(config.patch->empty());
  EXPECT_THAT(config.bundles, ElementsAre("a", "b c"));
  EXPECT_THAT(config.names, ElementsAre("x", "y"));
}

TEST(YamlReaderTest, AbsentKeysKeepTheirDefaults) {
  Config config;
  ASSERT_TRUE(Read("model: m\nplan:\n  # all commented out\nprefill: {}\n", &config).ok());
  EXPECT_EQ(config.threads, 4);
  EXPECT_EQ(config.tokens, 256);
  EXPECT_FALSE(config.rank.has_value());
  EXPECT_THAT(config.layers, ElementsAre(7));
  EXPECT_FALSE(config.patch.has_value());
}

TEST(YamlReaderTest, TheWordClearsTheList) {
  Config config;
  config.patch = {1, 2};
  ASSERT_TRUE(Read("model: m\nplan: {patch_layers: auto}\n", &config).ok());
  EXPECT_FALSE(config.patch.has_value());
  EXPECT_EQ(ReadError("model: m\nplan: {patch_layers: all}\n"),
            "f.yaml:2: plan.patch_layers: expected auto or a list, got \"all\"");
}

TEST(YamlReaderTest, UnknownKeysAreRefusedWithASuggestion) {
  EXPECT_EQ(ReadError("model: m\nthread: 2\n"),
            "f.yaml:2: thread: is not a known key; did you mean threads?");
  EXPECT_EQ(ReadError("model: m\nprefill:\n  chunk_token: 2\n"),
            "f.yaml:3: prefill.chunk_token: is not a known key; did you mean prefill.chunk_tokens?");
  EXPECT_EQ(ReadError("model: m\nchunk_tokens: 2\n"),
            "f.yaml:2: chunk_tokens: is not a known key; did you mean prefill.chunk_tokens?");
  EXPECT_EQ(ReadError("model: m\nprefill: {zzzzzzzzz: 2}\n"),
            "f.yaml:2: prefill.zzzzzzzzz: is not a known key; known here: chunk_tokens, codec");
  EXPECT_EQ(ReadError("model: m\npeers: [{name: a, nam: b}]\n"),
            "f.yaml:2: peers[0].nam: is not a known key; did you mean peers[0].name?");
  // A misspelt required key is reported as what it is.
  EXPECT_EQ(ReadError("modle: m\n"), "f.yaml:1: modle: is not a known key; did you mean model?");
  EXPECT_EQ(ReadError("model: m\n", {"prefil.codec=f32"}),
            "--set prefil.codec=f32: prefil: is not a known key; did you mean prefill?");
}

TEST(YamlReaderTest, MissingAndEmptyRequiredText) {
  EXPECT_EQ(ReadError("threads: 2\n"), "f.yaml:1: model: is missing");
  EXPECT_EQ(ReadError("model: ''\n"), "f.yaml:1: model: is empty");
  EXPECT_EQ(ReadError("model:\n"), "f.yaml:1: model: expected text, got nothing");
  EXPECT_EQ(ReadError("model: m\npeers:\n  - {}\n"), "f.yaml:3: peers[0].name: is missing");
}

TEST(YamlReaderTest, RangesAreInTheMessageWithTheirUnit) {
  EXPECT_EQ(ReadError("model: m\nprefill: {chunk_tokens: 0}\n"),
            "f.yaml:2: prefill.chunk_tokens: 0 is out of range; allowed: 1 to 4096 tokens");
  EXPECT_EQ(ReadError("model: m\nthreads: 257\n"),
            "f.yaml:2: threads: 257 is out of range; allowed: 0 to 256");
  EXPECT_EQ(ReadError("model: m\nplan: {lambda: 1.5}\n"),
            "f.yaml:2: plan.lambda: 1.5 is out of range; allowed: 0 to 1");
  EXPECT_EQ(ReadError("model: m\nplan: {layers: [1, 99]}\n"),
            "f.yaml:2: plan.layers[1]: 99 is out of range; allowed: 0 to 31");
  EXPECT_EQ(ReadError("model: m\nplan: {layers: []}\n"),
            "f.yaml:2: plan.layers: has 0 entries; allowed: 1 to 3");
  EXPECT_EQ(ReadError("model: m\nbundles: [a, b, c]\n"), "f.yaml:2: bundles: has 3 entries; allowed: 0 to 2");
  EXPECT_EQ(ReadError("model: m\n", {"threads=-1"}),
            "--set threads=-1: threads: -1 is out of range; allowed: 0 to 256");
  EXPECT_THAT(ReadError("model: m\nthreads: 99999999999999999999999999\n"), HasSubstr("is out of range"));
}

TEST(YamlReaderTest, WrongTypesAreRefused) {
  for (const char* value :
       {"x", "1.0", "1e3", "0x10", "\"8\"", "[1]", "{a: 1}", "+1", "1_000", "~", "true"}) {
    EXPECT_THAT(ReadError(std::string("model: m\nthreads: ") + value + "\n"),
                HasSubstr("expected a whole number, got"))
        << value;
  }
  for (const char* value : {"x", "nan", ".inf", "inf", "\"1\"", "[1]", "1 2"}) {
    EXPECT_THAT(ReadError(std::string("model: m\nplan: {lambda: ") + value + "}\n"),
                HasSubstr("expected a number, got"))
        << value;
  }
  for (const char* value : {"yes", "no", "1", "True", "\"true\"", "[]"}) {
    EXPECT_THAT(ReadError(std::string("model: m\non: ") + value + "\n"), HasSubstr("expected true or false"))
        << value;
  }
  EXPECT_EQ(ReadError("model: m\nprefill: {codec: int8}\n"),
            "f.yaml:2: prefill.codec: \"int8\" is not one of: bf16, f32");
  EXPECT_EQ(ReadError("model: [m]\n"), "f.yaml:1: model: expected text, got a list");
  EXPECT_EQ(ReadError("model: m\nprefill: 3\n"),
            "f.yaml:2: prefill: expected a section (indented keys), got \"3\"");
  EXPECT_EQ(ReadError("model: m\nbundles: a\n"), "f.yaml:2: bundles: expected a list, got \"a\"");
  EXPECT_EQ(ReadError("model: m\npeers: [a]\n"),
            "f.yaml:2: peers[0]: expected a section (indented keys), got \"a\"");
}

TEST(YamlReaderTest, PartsOfAProgramMayShareASection) {
  const auto document = YamlDocument::Parse("s:\n  a: 1\n  b: 2\n  c: 3\n", "f.yaml");
  ASSERT_TRUE(document.ok());
  YamlReader reader(*document);
  int a = 0;
  int b = 0;
  reader.root().Section("s").Int("a", &a);
  reader.root().Section("s").Int("b", &b);
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
  EXPECT_EQ(reader.Finish().message(), "f.yaml:4: s.c: is not a known key; did you mean s.a?");
}

TEST(YamlReaderTest, FailReportsChecksOverSeveralFields) {
  const auto document = YamlDocument::Parse("a: 1\ns:\n  b: 2\n", "f.yaml");
  ASSERT_TRUE(document.ok());
  YamlReader reader(*document);
  YamlSection root = reader.root();
  int a = 0;
  int b = 0;
  root.Int("a", &a);
  YamlSection section = root.Section("s");
  section.Int("b", &b);
  section.Fail("b", "is over a");
  EXPECT_EQ(reader.Finish().message(), "f.yaml:3: s.b: is over a");
}

}  // namespace
}  // namespace scd
