#include "eval/config.h"

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

absl::StatusOr<EvalConfig> Read(const std::string& yaml) {
  const auto document = YamlDocument::Parse(yaml, "eval.yaml");
  if (!document.ok()) return document.status();
  YamlReader reader(*document);
  EvalConfig config;
  ReadEvalConfig(reader.root(), &config);
  if (const absl::Status status = reader.Finish(); !status.ok()) return status;
  return config;
}

std::string ErrorOf(const std::string& yaml) {
  return std::string(Read(yaml).status().message());
}

TEST(EvalConfigTest, TheShippedFileIsTheDefaults) {
  const auto shipped = LoadEvalConfig(testing::TestDataPath("../../configs/eval.yaml"), {});
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  const EvalConfig defaults;
  EXPECT_EQ(shipped->rows, defaults.rows);
  EXPECT_EQ(shipped->consumer, defaults.consumer);
  EXPECT_EQ(shipped->daemons.programs, defaults.daemons.programs);
  EXPECT_EQ(shipped->daemons.producer_config, defaults.daemons.producer_config);
  EXPECT_EQ(shipped->daemons.consumer_config, defaults.daemons.consumer_config);
  EXPECT_EQ(shipped->daemons.start_timeout_s, defaults.daemons.start_timeout_s);
  EXPECT_EQ(shipped->daemons.stop_timeout_s, defaults.daemons.stop_timeout_s);
  EXPECT_EQ(shipped->data.windows.path, defaults.data.windows.path);
  EXPECT_EQ(shipped->data.windows.format, defaults.data.windows.format);
  EXPECT_EQ(shipped->data.windows.count, defaults.data.windows.count);
  EXPECT_EQ(shipped->data.windows.prefix_tokens, defaults.data.windows.prefix_tokens);
  EXPECT_EQ(shipped->data.windows.continuation_tokens, defaults.data.windows.continuation_tokens);
  EXPECT_EQ(shipped->data.questions.path, defaults.data.questions.path);
  EXPECT_EQ(shipped->data.questions.format, defaults.data.questions.format);
  EXPECT_EQ(shipped->data.questions.scorer, defaults.data.questions.scorer);
  EXPECT_EQ(shipped->data.questions.count, defaults.data.questions.count);
  EXPECT_EQ(shipped->data.questions.prompt, defaults.data.questions.prompt);
  EXPECT_EQ(shipped->data.skip_malformed, defaults.data.skip_malformed);
  EXPECT_EQ(shipped->eval.max_tokens, defaults.eval.max_tokens);
  EXPECT_EQ(shipped->eval.stop, defaults.eval.stop);
  EXPECT_EQ(shipped->eval.ready_questions, defaults.eval.ready_questions);
  EXPECT_EQ(shipped->eval.codecs, defaults.eval.codecs);
  EXPECT_EQ(shipped->requests.connect_timeout_ms, defaults.requests.connect_timeout_ms);
  EXPECT_EQ(shipped->requests.request_timeout_ms, defaults.requests.request_timeout_ms);
  EXPECT_EQ(shipped->requests.transfer_timeout_ms, defaults.requests.transfer_timeout_ms);
  EXPECT_EQ(shipped->latency.prefix_tokens, defaults.latency.prefix_tokens);
  EXPECT_EQ(shipped->latency.group, defaults.latency.group);
  EXPECT_EQ(shipped->latency.rows, defaults.latency.rows);
  EXPECT_EQ(shipped->latency.repeats, defaults.latency.repeats);
  EXPECT_EQ(shipped->latency.links_mbit_s, defaults.latency.links_mbit_s);
  EXPECT_EQ(shipped->ablate.run, defaults.ablate.run);
  EXPECT_EQ(shipped->ablate.rank_k, defaults.ablate.rank_k);
  EXPECT_EQ(shipped->ablate.rank_v, defaults.ablate.rank_v);
  EXPECT_EQ(shipped->ablate.rank_h, defaults.ablate.rank_h);
  EXPECT_EQ(shipped->ablate.native_head, defaults.ablate.native_head);
  EXPECT_EQ(shipped->ablate.native_tail, defaults.ablate.native_tail);
  EXPECT_EQ(shipped->ablate.windows, defaults.ablate.windows);
  EXPECT_EQ(shipped->ablate.questions, defaults.ablate.questions);
  EXPECT_EQ(shipped->ablate.ready_questions, defaults.ablate.ready_questions);
  EXPECT_EQ(shipped->ablate.max_patch_layers, defaults.ablate.max_patch_layers);
  EXPECT_EQ(shipped->ablate.distortions, defaults.ablate.distortions);
  EXPECT_EQ(shipped->ablate.calibration_prefixes, defaults.ablate.calibration_prefixes);
  EXPECT_EQ(shipped->ablate.calibrate_config, defaults.ablate.calibrate_config);
  EXPECT_EQ(shipped->drift.prefixes, defaults.drift.prefixes);
  EXPECT_EQ(shipped->drift.decode_positions, defaults.drift.decode_positions);
  EXPECT_EQ(shipped->report.python, defaults.report.python);
  EXPECT_EQ(shipped->report.renderer, defaults.report.renderer);
  EXPECT_EQ(shipped->log_level, defaults.log_level);
}

TEST(EvalConfigTest, ReadsRowsWithEverythingTheyCanSay) {
  const auto config = Read(R"(
rows:
  - {mode: local}
  - {mode: scd, name: ours, group: equal, rank_k: 64, rank_v: 80, rank_h: 32, patch_layers: [3, 1], codec: int8,
     native_head: 1, native_tail: 16}
  - {mode: selective, recompute_layers: [10, 29]}
  - {mode: selective, name: chosen, recompute_layers: auto}
  - {mode: fused, codec: auto, distortion: 0.02}
eval:
  codecs: [bf16, entropy]
ablate:
  run: [distortion]
  distortions: [0.001, 0.02]
)");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->rows.size(), 5u);
  EXPECT_EQ(config->rows[0].name, "local");
  EXPECT_EQ(config->rows[0].group, "published");
  const TransferSpec& ours = config->rows[1].spec;
  EXPECT_EQ(config->rows[1].name, "ours");
  EXPECT_EQ(config->rows[1].group, "equal");
  EXPECT_EQ(ours.rank_k, 64);
  EXPECT_EQ(ours.rank_v, 80);
  EXPECT_EQ(ours.rank_h, 32);
  EXPECT_THAT(*ours.patch_layers, ElementsAre(3, 1));
  EXPECT_EQ(ours.codec, Codec::kInt8);
  EXPECT_EQ(ours.native_head, 1);
  EXPECT_EQ(ours.native_tail, 16);
  EXPECT_EQ(config->rows[2].spec.recompute_layers, (LayerRange{10, 29}));
  EXPECT_EQ(config->rows[3].spec.recompute_layers, std::nullopt);
  EXPECT_EQ(config->rows[4].spec.codec, std::nullopt);
  EXPECT_EQ(config->rows[4].spec.distortion, 0.02);
  EXPECT_THAT(config->eval.codecs, ElementsAre(Codec::kBF16, Codec::kEntropy));
  EXPECT_THAT(config->ablate.run, ElementsAre(Ablation::kDistortion));
  EXPECT_THAT(config->ablate.distortions, ElementsAre(0.001, 0.02));
}

struct BadCase {
  std::string yaml;
  std::string error;
};
void PrintTo(const BadCase& bad, std::ostream* out) {
  *out << bad.yaml;
}

class EvalConfigErrors : public ::testing::TestWithParam<BadCase> {};

TEST_P(EvalConfigErrors, NameTheField) {
  EXPECT_THAT(ErrorOf(GetParam().yaml), HasSubstr(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    Files, EvalConfigErrors,
    ::testing::Values(
        BadCase{"rows: [{mode: telepathy}]", "\"telepathy\" is none of local, raw"},
        BadCase{"rows: [{name: x}]", "mode"}, BadCase{"rows: []", "rows"},
        BadCase{"rows: [{mode: scd}, {mode: scd}]", "\"scd\" stands twice in group published"},
        BadCase{"rows: [{mode: raw, rank_k: 8}]", "rank_k and rank_v are for scd and reuse"},
        BadCase{"rows: [{mode: reuse, patch_layers: [1]}]", "rank_h and patch_layers are for scd"},
        BadCase{"rows: [{mode: scd, recompute_layers: [1, 2]}]", "recompute_layers is for selective"},
        BadCase{"rows: [{mode: selective, recompute_layers: [9, 2]}]", "expected [first, last]"},
        BadCase{"rows: [{mode: local, native_head: 1}]", "local transfers nothing"},
        BadCase{"rows: [{mode: quantized, codec: bf16}]", "needs codec int4 or int8"},
        BadCase{"rows: [{mode: raw, codec: int4}]", "mode raw sends bf16 or f32"},
        BadCase{"rows: [{mode: scd, codec: int5}]", "\"int5\" is none of bf16, f32, int8, int4"},
        BadCase{"rows: [{mode: raw, codec: entropy}]", "mode raw sends bf16 or f32"},
        BadCase{"rows: [{mode: scd, distortion: 0.1}]", "distortion is for codec entropy"},
        BadCase{"rows: [{mode: fused, distortion: -1}]", "distortion"},
        BadCase{"rows: [{mode: fused, rank_v: 4}]", "rank_k and rank_v are for scd and reuse"},
        BadCase{"ablate: {distortions: [x]}", "ablate.distortions"},
        BadCase{"rows: [{mode: scd, native_tail: -1}]", "native_tail"},
        BadCase{"rows: [{mode: scd, tail: 1}]", "tail"},
        BadCase{"eval: {codecs: [bf16, bf16]}", "bf16 stands twice"},
        BadCase{"eval: {max_tokens: 0}", "eval.max_tokens"},
        BadCase{"ablate: {run: [rank]}", "\"rank\" is none of"},
        BadCase{"latency: {prefix_tokens: []}", "latency.prefix_tokens"},
        BadCase{"data: {windows: {format: xml}}", "\"xml\" is none of auto"},
        BadCase{"data: {questions: {format: squad}}", "\"squad\" is none of auto, squad_v1"},
        BadCase{"data: {questions: {prompt: \"{answer}\"}}", "data.questions.prompt"},
        BadCase{"consumer: h:1\ndaemons: {bundle: b}", "consumer names a running pair"},
        BadCase{"datas: {}", "datas"}));

}  // namespace
}  // namespace scd
