#include "common/bundle/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/bundle/bundle_layout.h"
#include "nlohmann/json.hpp"
#include "tests/support/tiny_bundle.h"

namespace scd {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

BundleManifest Tiny() {
  testing::TinyBundleOptions options;
  options.untranslatable_ids = {7, 1000};
  BundleManifest m = testing::TinyManifest(testing::TinyConfig(), testing::MadeUpModel("base"),
                                           testing::MadeUpModel("expert"), options);
  m.default_rate_point = 1;
  m.layer_errors[2].kv = 0.0625;
  m.quality.kl_fused = 0.015;
  m.quality.ppl_fused = 17.25;
  return m;
}

absl::Status Parse(const json& document) {
  return ParseManifest(document.dump(), "m.json").status();
}

void ExpectRefused(const json& document, const std::string& field) {
  const absl::Status status = Parse(document);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
  EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("m.json: "), HasSubstr(field)));
}

// Every object and field of the document, depth first; `visit` gets the pointer of each.
void Visit(const json& value, const json::json_pointer& at,
           const std::function<void(const json::json_pointer&)>& visit) {
  visit(at);
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) Visit(item, at / key, visit);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) Visit(value[i], at / i, visit);
  }
}

// "/patch_choice/1/kl" -> "kl"; of an array's element the array's name with its index is in the message.
std::string FieldOf(const json::json_pointer& at) {
  return at.parent_pointer().empty() || !std::isdigit(static_cast<unsigned char>(at.back()[0]))
             ? at.back()
             : at.parent_pointer().back();
}

TEST(ManifestTest, ReadsBackWhatItWrites) {
  const BundleManifest written = Tiny();
  const auto read = ParseManifest(ManifestToJson(written), "m.json");
  ASSERT_TRUE(read.ok()) << read.status();
  // Every field is written, so equal text means equal values.
  EXPECT_EQ(ManifestToJson(*read), ManifestToJson(written));
  EXPECT_EQ(read->consumer.description, "expert");
  EXPECT_EQ(read->consumer.digest, written.consumer.digest);
  EXPECT_EQ(read->d_kv(), 16);
  EXPECT_EQ(read->untranslatable_ids, (std::vector<std::int32_t>{7, 1000}));
  ASSERT_EQ(read->patch_choice.size(), 2U);
  EXPECT_EQ(read->patch_choice[1].layer, 2);
  EXPECT_EQ(read->patch_choice[1].kl, written.patch_choice[1].kl);
  EXPECT_EQ(read->layer_errors[2].h, 0.125);
  ASSERT_EQ(read->selective.groups.size(), 2U);
  EXPECT_EQ(read->selective.kl_raw, 0.05);
  EXPECT_EQ(read->selective.groups[0].layers, (LayerRange{1, 2}));
  EXPECT_EQ(read->selective.groups[1].kl, 0.045);
  EXPECT_EQ(read->selective.groups[1].bytes_fraction, 0.875);
  EXPECT_EQ(read->selective.default_group, (LayerRange{1, 2}));
  EXPECT_EQ(read->calibration.ridge_lambda, 1e-4);
  EXPECT_EQ(read->quality.ppl_scd, 17.5);
  EXPECT_EQ(read->quality.kl_fused, 0.015);
  EXPECT_EQ(read->quality.ppl_fused, 17.25);
  EXPECT_EQ(read->fused, (FusedShape{.rank = 10}));
  EXPECT_EQ(read->rate_points,
            (std::vector<RatePoint>{{.distortion = 0.0001, .bytes_per_token = 100, .kl = 0.01},
                                    {.distortion = 0.01, .bytes_per_token = 99, .kl = 1.01}}));
  EXPECT_EQ(read->default_rate_point, 1);
  EXPECT_EQ(read->layer_errors[2].kv, 0.0625);
  EXPECT_EQ(read->tensors_digest, written.tensors_digest);
}

TEST(ManifestTest, IsLaidOutForPeople) {
  const std::string text = ManifestToJson(Tiny());
  EXPECT_THAT(text, StartsWith("{\n  \"version\": 4,\n  \"created_by\": \"tiny_bundle\",\n"));
  EXPECT_THAT(text, HasSubstr("\n    \"patch_layers\": [1],\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\n    \"default\": {\n      \"first\": 1,\n      \"last\": 2\n    },\n    \"groups\": [\n"
                "      {\"first\":1,\"last\":2,\"kl\":0.01,\"bytes_fraction\":0.75},\n"));
  EXPECT_THAT(text, HasSubstr("\n    {\"layer\":3,\"k\":0.25,\"v\":0.5,\"h\":0.0,\"kv\":0.0}\n  ],\n"));
}

TEST(ManifestTest, DescriptionsMayHoldAnything) {
  BundleManifest m = Tiny();
  m.calibration.corpus = "quotes \" and \n lines and no UTF-8 \xff";
  const auto read = ParseManifest(ManifestToJson(m), "m.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->calibration.corpus, "quotes \" and \n lines and no UTF-8 \xEF\xBF\xBD");
}

TEST(ManifestTest, UnknownFieldsAreRefusedWithTheirPath) {
  const json good = json::parse(ManifestToJson(Tiny()));
  int num_objects = 0;
  Visit(good, json::json_pointer(), [&](const json::json_pointer& at) {
    if (!good.at(at).is_object()) return;
    json changed = good;
    changed[at]["surplus"] = 1;
    ExpectRefused(changed, "surplus: unknown field");
    ++num_objects;
  });
  EXPECT_EQ(
      num_objects,
      1 + 2 + 1 + 1 + 1 + 1 + 3 + 4 + 2 + 4 + 1 + 1);  // top, models, shape, plan, fitted, fused, rates, ...
  json changed = good;
  changed["patch_choice"][1]["surplus"] = 1;
  ExpectRefused(changed, "m.json: patch_choice[1]: surplus: unknown field");
}

TEST(ManifestTest, EveryFieldIsNeededAndTyped) {
  const json good = json::parse(ManifestToJson(Tiny()));
  int num_fields = 0;
  Visit(good, json::json_pointer(), [&](const json::json_pointer& at) {
    if (at.empty()) return;
    ++num_fields;
    if (good.at(at.parent_pointer()).is_object()) {
      json removed = good;
      removed.at(at.parent_pointer()).erase(at.back());
      ExpectRefused(removed, FieldOf(at));
    }
    for (const json& wrong : {json(nullptr), json("x"), json(true), json(-1.5), json(std::uint64_t{1} << 63),
                              json::object({{"a", 1}}), json::array({json::array()})}) {
      // A text field takes any text, a measured number any number.
      if (good.at(at).is_string() && wrong.is_string()) continue;
      if (good.at(at).is_number_float() && wrong.is_number()) continue;
      json changed = good;
      changed[at] = wrong;
      ExpectRefused(changed, FieldOf(at));
    }
  });
  EXPECT_GT(num_fields, 70);
}

struct BadValue {
  const char* pointer;
  json value;
  const char* message;
};

class BadValueTest : public ::testing::TestWithParam<BadValue> {};

TEST_P(BadValueTest, IsRefusedNamingTheField) {
  json document = json::parse(ManifestToJson(Tiny()));
  document[json::json_pointer(GetParam().pointer)] = GetParam().value;
  ExpectRefused(document, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    ManifestTest, BadValueTest,
    ::testing::Values(
        BadValue{"/version", 0, "version: expected an integer in [1,"},
        BadValue{"/producer/digest", "12", "producer: digest: a digest is 32 hex digits"},
        BadValue{"/producer/digest", std::string(32, 'g'), "producer: digest: a digest is 32 hex digits"},
        BadValue{"/consumer/tokenizer_digest", std::string(32, '0'),
                 "consumer: tokenizer_digest: is all zero"},
        BadValue{"/tensors_digest", std::string(33, 'a'), "tensors_digest: a digest is 32 hex digits"},
        BadValue{"/shape/num_layers", 0, "shape: num_layers: expected an integer in [1, 1024]"},
        BadValue{"/shape/num_layers", 1025, "shape: num_layers"},
        BadValue{"/shape/num_layers", 5, "layer_errors: has 4 entries for 5 layers"},
        BadValue{"/shape/hidden_size", std::int64_t{1} << 40, "shape: hidden_size"},
        BadValue{"/shape/hidden_size", 15, "fitted: ranks_h[1]: expected an integer in [1, 15]"},
        BadValue{"/shape/num_kv_heads", std::int64_t{1} << 62, "shape: num_kv_heads"},
        BadValue{"/shape/head_dim", (1 << 17) + 1, "shape: head_dim: expected an integer in [1, 131072]"},
        BadValue{"/shape/architecture", "", "shape: architecture: is empty"},
        BadValue{"/fitted/max_rank_k", 17, "fitted: max_rank_k: expected an integer in [1, 16]"},
        BadValue{"/fitted/max_rank_v", 0, "fitted: max_rank_v"},
        BadValue{"/fitted/ranks_h", json::array({16, 8}), "fitted: ranks_h[1]: 8 does not follow 16"},
        BadValue{"/fitted/ranks_h", json::array({16, 16}), "fitted: ranks_h[1]: 16 does not follow 16"},
        BadValue{"/fitted/ranks_h", json::array(),
                 "fitted: ranks_h: is empty exactly where candidate_layers is"},
        BadValue{"/fitted/ranks_h", json::array({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}),
                 "fitted: ranks_h: has 17 entries, more than 16"},
        BadValue{"/fitted/candidate_layers", json::array(), "fitted: ranks_h: is empty exactly where"},
        BadValue{"/fitted/candidate_layers", json::array({1, 4}), "fitted: candidate_layers[1]"},
        BadValue{"/fitted/candidate_layers", json::array({1, -1}), "fitted: candidate_layers[1]"},
        BadValue{"/fitted/candidate_layers", json::array({1, 2, 1}),
                 "fitted: candidate_layers: a value stands twice"},
        BadValue{"/fitted/mlp_width", 0, "fitted: mlp_width"},
        BadValue{"/plan/rank_k", 7, "plan: rank_k: expected an integer in [1, 6]"},
        BadValue{"/plan/rank_v", 9, "plan: rank_v: expected an integer in [1, 8]"},
        BadValue{"/plan/rank_h", 9, "plan: rank_h: 9 is not in fitted: ranks_h"},
        BadValue{"/plan/patch_layers", json::array({3}),
                 "plan: patch_layers: 3 is not in fitted: candidate_layers"},
        BadValue{"/plan/patch_layers", json::array({1, 1}), "plan: patch_layers: a value stands twice"},
        BadValue{"/plan/native_head", -1, "plan: native_head"},
        BadValue{"/plan/native_tail", std::int64_t{1} << 21, "plan: native_tail"},
        BadValue{"/untranslatable_ids", json::array({5, 5}), "untranslatable_ids[1]: 5 does not follow 5"},
        BadValue{"/untranslatable_ids", json::array({std::int64_t{1} << 31}), "untranslatable_ids[0]"},
        BadValue{"/layer_errors/1/layer", 0, "layer_errors[1]: layer: expected an integer in [1, 1]"},
        BadValue{"/layer_errors/1/k", -0.5, "layer_errors[1]: k: expected a number in [0,"},
        BadValue{"/patch_choice/0/layer", 3, "patch_choice[0]: layer: 3 is not in fitted: candidate_layers"},
        BadValue{"/patch_choice/1/layer", 1, "patch_choice[1]: layer: 1 stands in two steps"},
        BadValue{"/selective/groups/0/last", 4, "selective: groups[0]: last: expected an integer in [1, 3]"},
        BadValue{"/selective/groups/0/last", 0, "selective: groups[0]: last: expected an integer in [1, 3]"},
        BadValue{"/selective/groups/1/first", -1,
                 "selective: groups[1]: first: expected an integer in [0, 3]"},
        BadValue{"/selective/groups/1",
                 json({{"first", 1}, {"last", 2}, {"kl", 0.1}, {"bytes_fraction", 0.5}}),
                 "selective: groups[1]: first: this group stands twice"},
        BadValue{"/selective/groups/1/bytes_fraction", -0.5,
                 "selective: groups[1]: bytes_fraction: expected a number in [0,"},
        BadValue{"/selective/groups", json(std::vector<json>(4097, json::object())),
                 "selective: groups: has 4097 entries, more than 4096"},
        BadValue{"/selective/default", nullptr,
                 "selective: default: missing; expected the first and last layer of a group"},
        BadValue{"/selective/default/last", 4, "selective: default: last: expected an integer in [1, 3]"},
        BadValue{"/selective/default/first", 3, "selective: default: last: expected an integer in [3, 3]"},
        BadValue{"/selective/default", json::array({1, 2}), "selective: default"},
        BadValue{"/fused/rank", -1, "fused: rank: expected an integer in [0, 32]"},
        BadValue{"/fused/rank", 33, "fused: rank: expected an integer in [0, 32]"},
        BadValue{"/fused/rank", std::int64_t{1} << 40, "fused: rank"},
        BadValue{"/fused/group", 0, "fused: group: expected an integer in [1, 4]"},
        BadValue{"/fused/group", 5, "fused: group: expected an integer in [1, 4]"},
        BadValue{"/fused", json({{"rank", 65}, {"group", 2}}), "fused: rank: expected an integer in [0, 64]"},
        BadValue{"/rates/default", -1, "rates: default: expected an integer in [0, 1]"},
        BadValue{"/rates/default", 2, "rates: default: expected an integer in [0, 1]"},
        BadValue{"/rates/points", json::array(), "rates: default: expected an integer in [0, 0]"},
        BadValue{"/rates/points", json(std::vector<json>(33, json::object())),
                 "rates: points: has 33 entries, more than 32"},
        BadValue{"/rates/points/0/distortion", 0.0, "rates: points[0]: distortion: is not above 0"},
        BadValue{"/rates/points/0/distortion", -1e-9, "rates: points[0]: distortion"},
        BadValue{"/rates/points/1/distortion", 0.0001,
                 "rates: points[1]: distortion: is not above 0 and above the point before it"},
        BadValue{"/rates/points/0/bytes_per_token", -1.0, "rates: points[0]: bytes_per_token"},
        BadValue{"/rates/points/0", 7, "rates: points[0]"},
        BadValue{"/layer_errors/1/kv", -0.5, "layer_errors[1]: kv: expected a number in [0,"},
        BadValue{"/quality/ppl_fused", -1.0, "quality: ppl_fused"},
        BadValue{"/calibration/num_tokens", -1, "calibration: num_tokens"},
        BadValue{"/quality/ppl_scd", -1.0, "quality: ppl_scd"}));

TEST(ManifestTest, NewerVersionIsCalledNewer) {
  json document = json::parse(ManifestToJson(Tiny()));
  document["version"] = kBundleVersion + 1;
  document["what_it_brings"] = 1;
  const absl::Status status = Parse(document);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "m.json: version: 5 is newer than this program knows, 4");
}

TEST(ManifestTest, OlderVersionHasToBeFittedAgain) {
  json document = json::parse(ManifestToJson(Tiny()));
  document["version"] = 1;
  document.erase("selective");
  const absl::Status status = Parse(document);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "m.json: version: 1 is older than the one that this program reads, 4: fit the bundle "
            "again with scd-calibrate");
}

TEST(ManifestTest, APairNeedNotBeProfiled) {
  BundleManifest m = Tiny();
  m.selective = {};
  auto read = ParseManifest(ManifestToJson(m), "m.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->selective.groups.empty());
  EXPECT_EQ(read->selective.default_group, std::nullopt);
  // An operator may name the group without measuring any.
  m.selective.default_group = LayerRange{0, 3};
  read = ParseManifest(ManifestToJson(m), "m.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->selective.default_group, (LayerRange{0, 3}));
}

TEST(ManifestTest, BundleWithoutPatchIsValid) {
  testing::TinyBundleOptions options;
  options.candidate_layers = {};
  options.default_patch_layers = {};
  const BundleManifest m = testing::TinyManifest(testing::TinyConfig(), testing::MadeUpModel("base"),
                                                 testing::MadeUpModel("expert"), options);
  const auto read = ParseManifest(ManifestToJson(m), "m.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->mlp_width, 0);
  EXPECT_EQ(BundleTensors(*read).size(),
            4U * (2 * 4 + 4 + 2 * 3 * 2));  // K, V, KV, tables of each at two points
}

// Of more columns a granule in f32 would not fit into a frame.
TEST(ManifestTest, FusedCodesHaveAtMost8192Columns) {
  json document = json::parse(ManifestToJson(Tiny()));
  document["shape"]["hidden_size"] = document["shape"]["head_dim"] = 1 << 14;
  document["fused"]["rank"] = 8193;
  ExpectRefused(document, "fused: rank: expected an integer in [0, 8192]");
  document["fused"]["rank"] = 8192;
  EXPECT_TRUE(Parse(document).ok()) << Parse(document);
}

TEST(ManifestTest, BundleWithoutFusedLayersOrTablesIsValid) {
  testing::TinyBundleOptions options;
  options.fused = FusedShape();
  options.distortions.clear();
  const BundleManifest m = testing::TinyManifest(testing::TinyConfig(), testing::MadeUpModel("base"),
                                                 testing::MadeUpModel("expert"), options);
  const auto read = ParseManifest(ManifestToJson(m), "m.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->fused, FusedShape());
  EXPECT_TRUE(read->rate_points.empty());
  for (const BundleTensor& tensor : BundleTensors(*read)) {
    EXPECT_EQ(tensor.name.find(".kv."), std::string::npos);
    EXPECT_EQ(tensor.name.find(".rate."), std::string::npos);
    EXPECT_EQ(tensor.dtype, DType::kF32);
  }
}

TEST(ManifestTest, HugeTextIsRefusedUnread) {
  const absl::Status status = ParseManifest(std::string(kMaxManifestBytes + 1, '['), "m.json").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than the 16777216 that a manifest may have"));
}

// Whatever happens to the bytes: refused with a message, or read into a manifest that holds its promises.
TEST(ManifestTest, MutatedTextNeverBreaksIt) {
  const std::string good = ManifestToJson(Tiny());
  std::mt19937 random(20);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::string interesting = "0123456789-+.eE\"{}[],:\\ntf\x80\xff";
  int num_read = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = interesting[below(interesting.size())];
          break;
        case 1:
          text.erase(at, 1 + below(20));
          break;
        case 2:
          text.insert(at, 1, interesting[below(interesting.size())]);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), 1 + below(40)));
      }
    }
    const auto read = ParseManifest(text, "m.json");
    if (!read.ok()) {
      EXPECT_THAT(std::string(read.status().message()), StartsWith("m.json: "));
      continue;
    }
    ++num_read;
    EXPECT_LE(read->default_rank_k, read->d_kv());
    EXPECT_EQ(read->layer_errors.size(), static_cast<std::size_t>(read->num_layers));
    for (const BundleTensor& tensor : BundleTensors(*read)) EXPECT_GT(tensor.shape.num_elements(), 0);
    for (const SelectiveGroup& group : read->selective.groups) {
      EXPECT_LE(group.layers.first, group.layers.last);
      EXPECT_LT(group.layers.last, read->num_layers);
    }
    EXPECT_TRUE(read->selective.groups.empty() || read->selective.default_group.has_value());
    EXPECT_LE(read->fused.rank, 2 * read->d_kv());
    EXPECT_TRUE(
        std::is_sorted(read->rate_points.begin(), read->rate_points.end(),
                       [](const RatePoint& a, const RatePoint& b) { return a.distortion < b.distortion; }));
    EXPECT_LT(read->default_rate_point,
              std::max<std::int64_t>(1, static_cast<std::int64_t>(read->rate_points.size())));
    EXPECT_TRUE(ParseManifest(ManifestToJson(*read), "again").ok());
  }
  EXPECT_GT(num_read, 10);  // descriptions and measured numbers may change
}

}  // namespace
}  // namespace scd
