#include "calibrate/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/config/yaml_document.h"
#include "tests/support/shared_data.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNeeded[] = "producer: {path: a}\nconsumer: {path: b}\noutput: out\nwork_dir: work\n";

absl::StatusOr<CalibrateConfig> Read(const std::string& yaml) {
  const auto document = YamlDocument::Parse(yaml, "calibrate.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  CalibrateConfig config;
  ReadCalibrateConfig(reader.root(), &config);
  if (const absl::Status status = reader.Finish(); !status.ok()) return status;
  return config;
}

std::string Error(const std::string& more) {
  return std::string(Read(kNeeded + more).status().message());
}

TEST(CalibrateConfigTest, NeededFieldsGiveTheDefaults) {
  const CalibrateConfig config = Read(kNeeded).value();
  EXPECT_EQ(config.producer.path, "a");
  EXPECT_EQ(config.ranks.k, 96);
  EXPECT_EQ(config.ranks.v, 128);
  EXPECT_THAT(config.ranks.h, ElementsAre(576));
  EXPECT_EQ(config.patch.count, 6);
  EXPECT_FALSE(config.patch.layers.has_value());
  ASSERT_EQ(config.corpus.sources.size(), 1u);
  EXPECT_EQ(config.corpus.sources[0].kind, CorpusSourceKind::kSelfSample);
  for (const char* field : {"producer", "consumer", "output", "work_dir"}) {
    std::string yaml = kNeeded;
    yaml.replace(yaml.find(field), std::string(field).size(), "log");
    EXPECT_FALSE(Read(yaml).ok()) << field;
  }
}

TEST(CalibrateConfigTest, TheShippedFilesAreReadWithTheirDefaultsWrittenOut) {
  const auto document = YamlDocument::Load(testing::TestDataPath("../../configs/calibrate.yaml"),
                                           std::vector<std::string>{"log=", "output=out", "work_dir=work"});
  ASSERT_TRUE(document.ok()) << document.status();
  YamlReader reader(*document);
  CalibrateConfig shipped;
  ReadCalibrateConfig(reader.root(), &shipped);
  const CalibrateConfig defaults = Read(kNeeded).value();
  EXPECT_EQ(shipped.ranks.h, defaults.ranks.h);
  EXPECT_EQ(shipped.ridge_lambda, defaults.ridge_lambda);
  EXPECT_EQ(shipped.corpus.max_prefixes, defaults.corpus.max_prefixes);
  EXPECT_EQ(shipped.corpus.hold_out_every, defaults.corpus.hold_out_every);
  EXPECT_EQ(shipped.corpus.sources[0].limit, defaults.corpus.sources[0].limit);
  EXPECT_EQ(shipped.corpus.sources[0].num_tokens, defaults.corpus.sources[0].num_tokens);
  EXPECT_EQ(shipped.patch.num_candidates, defaults.patch.num_candidates);
  EXPECT_EQ(shipped.patch.layer_cost, defaults.patch.layer_cost);
  EXPECT_EQ(shipped.selective.profile, defaults.selective.profile);
  EXPECT_EQ(shipped.selective.prefixes, defaults.selective.prefixes);
  EXPECT_EQ(shipped.selective.sizes, defaults.selective.sizes);
  EXPECT_EQ(shipped.selective.default_group, defaults.selective.default_group);
  EXPECT_EQ(shipped.selective.share, defaults.selective.share);
  EXPECT_EQ(shipped.aligner.max_epochs, defaults.aligner.max_epochs);
  EXPECT_EQ(shipped.aligner.patience, defaults.aligner.patience);
  EXPECT_EQ(shipped.reuse_fit, defaults.reuse_fit);
  EXPECT_EQ(shipped.fused.rank, defaults.fused.rank);
  EXPECT_EQ(shipped.fused.group, defaults.fused.group);
  EXPECT_EQ(shipped.entropy.distortions, defaults.entropy.distortions);
  EXPECT_EQ(shipped.entropy.default_distortion, defaults.entropy.default_distortion);
  EXPECT_FALSE(shipped.entropy.target.given());
  EXPECT_EQ(shipped.measure.quality_prefixes, defaults.measure.quality_prefixes);
  EXPECT_EQ(shipped.trace.pass_tokens, defaults.trace.pass_tokens);
}

TEST(CalibrateConfigTest, EverySourceKindIsRead) {
  const CalibrateConfig config = Read(std::string(kNeeded) + R"(
corpus:
  sources:
    - jsonl: a.jsonl
      limit: 90
    - text: b.txt
      special_tokens: true
    - self_sample: {num_prefixes: 7, tokens: 50, seeds: s.txt, min_temperature: 0.5, max_temperature: 0.9, seed: 3}
)")
                                     .value();
  ASSERT_EQ(config.corpus.sources.size(), 3u);
  EXPECT_EQ(config.corpus.sources[0].path, "a.jsonl");
  EXPECT_EQ(config.corpus.sources[0].limit, 90);
  EXPECT_EQ(config.corpus.sources[1].kind, CorpusSourceKind::kText);
  EXPECT_TRUE(config.corpus.sources[1].special_tokens);
  EXPECT_EQ(config.corpus.sources[2].limit, 7);
  EXPECT_EQ(config.corpus.sources[2].num_tokens, 50);
  EXPECT_EQ(config.corpus.sources[2].max_temperature, 0.9);
}

TEST(CalibrateConfigTest, WordsListsAndNumbersOfPatch) {
  const auto patch = [](const std::string& text) { return Read(kNeeded + ("patch: " + text)).value().patch; };
  EXPECT_FALSE(patch("{count: auto}").count.has_value());
  EXPECT_EQ(patch("{candidates: all}").num_candidates, 0);
  EXPECT_THAT(*patch("{candidates: [3, 1]}").candidates, ElementsAre(3, 1));
  EXPECT_THAT(*patch("{layers: [3, 1]}").layers, ElementsAre(3, 1));
  EXPECT_FALSE(patch("{layers: auto}").layers.has_value());
}

TEST(CalibrateConfigTest, WordsAndListsOfSelective) {
  const auto selective = [](const std::string& text) {
    return Read(kNeeded + ("selective: " + text)).value().selective;
  };
  EXPECT_FALSE(selective("{profile: false}").profile);
  EXPECT_THAT(*selective("{sizes: [3, 1]}").sizes, ElementsAre(1, 3));
  EXPECT_FALSE(selective("{sizes: auto, default: auto}").sizes.has_value());
  EXPECT_EQ(selective("{default: [3, 7]}").default_group, (LayerRange{3, 7}));
  EXPECT_EQ(selective("{default: auto}").default_group, std::nullopt);
  EXPECT_EQ(selective("{share: 1}").share, 1.0);
}

TEST(CalibrateConfigTest, FusedEntropyAndReuse) {
  const CalibrateConfig config = Read(kNeeded + std::string(R"(
reuse: {fit: rrr}
fused: {rank: 12, group: 2}
entropy: {distortions: [0.5, 0.25], default: 0.5, target_bytes: 1234.5}
)"))
                                     .value();
  EXPECT_EQ(config.reuse_fit, ReuseFit::kReducedRank);
  EXPECT_EQ(config.fused.rank, 12);
  EXPECT_FALSE(config.fused.cut_unsent);
  EXPECT_EQ(config.fused.group, 2);
  EXPECT_THAT(config.entropy.distortions, ElementsAre(0.25, 0.5));
  EXPECT_EQ(config.entropy.default_distortion, 0.5);
  EXPECT_EQ(config.entropy.target.bytes_per_token, 1234.5);
  EXPECT_EQ(Read(kNeeded + std::string("fused: {rank: 0}\n"))->fused.rank, 0);
  EXPECT_EQ(Read(kNeeded + std::string("fused: {rank: auto}\n"))->fused.rank, std::nullopt);
  EXPECT_TRUE(Read(kNeeded + std::string("entropy: {distortions: []}\n"))->entropy.distortions.empty());
  EXPECT_EQ(Read(kNeeded + std::string("entropy: {target_kl: 0.02}\n"))->entropy.target.kl, 0.02);
}

TEST(CalibrateConfigTest, WrongFieldsAreNamed) {
  EXPECT_THAT(Error("reuse: {fit: best}\n"), HasSubstr("reuse.fit"));
  EXPECT_THAT(Error("fused: {rank: -1}\n"), HasSubstr("fused.rank"));
  EXPECT_THAT(Error("fused: {group: 0}\n"), HasSubstr("fused.group"));
  EXPECT_THAT(Error("entropy: {distortions: [0.04, x]}\n"), HasSubstr("entropy.distortions[1]"));
  EXPECT_THAT(Error("entropy: {distortions: [0]}\n"), HasSubstr("entropy.distortions[0]"));
  EXPECT_THAT(Error("entropy: {distortions: [0.04, 0.04]}\n"), HasSubstr("a distortion stands twice"));
  EXPECT_THAT(Error("entropy: {default: 0.05}\n"), HasSubstr("entropy.default: the default, 0.05, is none"));
  EXPECT_THAT(Error("entropy: {distortions: [0.1]}\n"), HasSubstr("entropy.distortions: the default, 0.04"));
  EXPECT_THAT(Error("entropy: {target_kl: 0.02, target_bytes: 2000}\n"), HasSubstr("given beside target_kl"));
  EXPECT_THAT(Error("entropy: {distortions: [], target_kl: 0.02}\n"),
              HasSubstr("entropy.distortions: is empty"));
  EXPECT_THAT(Error("selective: {sizes: []}\n"), HasSubstr("selective.sizes"));
  EXPECT_THAT(Error("selective: {sizes: [2, 2]}\n"), HasSubstr("selective.sizes: a size stands twice"));
  EXPECT_THAT(Error("selective: {sizes: [0]}\n"), HasSubstr("selective.sizes[0]"));
  EXPECT_THAT(Error("selective: {default: [3]}\n"), HasSubstr("selective.default"));
  EXPECT_THAT(Error("selective: {default: [3, 2]}\n"),
              HasSubstr("selective.default: its last layer is before its first"));
  EXPECT_THAT(Error("selective: {default: none}\n"), HasSubstr("selective.default"));
  EXPECT_THAT(Error("selective: {share: 1.5}\n"), HasSubstr("selective.share"));
  EXPECT_THAT(Error("rank: 3\n"), HasSubstr("calibrate.yaml:5"));
  EXPECT_THAT(Error("ranks: {k: 0}\n"), HasSubstr("ranks.k"));
  EXPECT_THAT(Error("ranks: {h: []}\n"), HasSubstr("ranks.h"));
  EXPECT_THAT(Error("ranks: {h: [8, 8]}\n"), HasSubstr("ranks.h"));
  EXPECT_THAT(Error("ranks: {h: [8], default_h: 9}\n"), HasSubstr("ranks.default_h"));
  EXPECT_THAT(Error("ranks: {k: 90, max_k: 80}\n"), HasSubstr("ranks.max_k"));
  EXPECT_THAT(Error("patch: {layers: [1, 1]}\n"), HasSubstr("stands twice"));
  EXPECT_THAT(Error("patch: {layers: [1], candidates: [2]}\n"), HasSubstr("patch.candidates"));
  EXPECT_THAT(Error("patch: {count: many}\n"), HasSubstr("patch.count"));
  EXPECT_THAT(Error("corpus: {sources: [{jsonl: a, text: b}]}\n"), HasSubstr("corpus.sources[0]"));
  EXPECT_THAT(Error("corpus: {sources: [{}]}\n"), HasSubstr("jsonl"));
  EXPECT_THAT(Error("corpus: {hold_out_every: 1}\n"), HasSubstr("corpus.hold_out_every"));
  EXPECT_THAT(Error("corpus: {sources: [{self_sample: {min_temperature: 1.0, max_temperature: 0.5}}]}\n"),
              HasSubstr("max_temperature"));
  EXPECT_THAT(Error("ridge_lambda: -1\n"), HasSubstr("ridge_lambda"));
}

ModelConfig SmallModel() {
  ModelConfig model;
  model.num_layers = 4;
  model.num_kv_heads = 2;
  model.head_dim = 8;
  model.hidden_size = 64;
  return model;
}

TEST(CalibrateConfigTest, WhatOnlyTheModelsTellIsFilledInOrRefused) {
  CalibrateConfig config = Read(std::string(kNeeded) + "ranks: {k: 5, v: 7, h: [16, 32]}\n").value();
  ASSERT_TRUE(ResolveForModel(SmallModel(), &config).ok());
  EXPECT_EQ(config.ranks.max_k, 16);
  EXPECT_EQ(config.ranks.max_v, 16);
  EXPECT_EQ(config.ranks.default_h, 32);
  EXPECT_EQ(config.fused.group, 4);  // all of them
  EXPECT_EQ(config.fused.rank, 4 * 32);

  const auto error = [](const std::string& more) {
    CalibrateConfig bad = Read(kNeeded + more).value();
    return std::string(ResolveForModel(SmallModel(), &bad).message());
  };
  EXPECT_THAT(error("ranks: {k: 17, v: 2, h: [8]}\n"),
              HasSubstr("ranks.k: 17 is over these models' width, 16"));
  EXPECT_THAT(error("ranks: {k: 2, v: 2, h: [65]}\n"), HasSubstr("ranks.h"));
  EXPECT_THAT(error("ranks: {k: 2, v: 2, h: [8]}\nfused: {rank: 65, group: 2}\n"),
              HasSubstr("fused.rank: 65 is over these models' width, 64"));
  EXPECT_THAT(error("ranks: {k: 2, v: 2, h: [8]}\npatch: {layers: [4]}\n"),
              HasSubstr("patch.layers: layer 4"));
  EXPECT_THAT(error("ranks: {k: 2, v: 2, h: [8]}\npatch: {candidates: [9]}\n"),
              HasSubstr("patch.candidates"));
  EXPECT_THAT(error("ranks: {k: 2, v: 2, h: [8]}\nselective: {sizes: [5]}\n"),
              HasSubstr("selective.sizes: 5 layers: the models have 4"));
  EXPECT_THAT(error("ranks: {k: 2, v: 2, h: [8]}\nselective: {default: [1, 4]}\n"),
              HasSubstr("selective.default: layer 4"));
}

}  // namespace
}  // namespace scd
