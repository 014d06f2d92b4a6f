#include "consumer/handshake.h"

#include <functional>
#include <string>
#include <vector>

#include "common/wire/frame_codec.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

Digest MadeUp(const std::string& name) {
  return DigestBuilder("test").AddString(name).Finish();
}

PeerIdentity Expected() {
  return {.model = MadeUp("model"),
          .tokenizer = MadeUp("tokenizer"),
          .bundle = MadeUp("bundle"),
          .architecture = "llama",
          .num_layers = 4,
          .hidden_size = 64,
          .num_kv_heads = 2,
          .head_dim = 16};
}

v1::ProducerInfo GoodInfo() {
  v1::ProducerInfo info;
  v1::ModelInfo* model = info.mutable_model();
  model->set_digest(std::string(MadeUp("model").bytes()));
  model->set_tokenizer_digest(std::string(MadeUp("tokenizer").bytes()));
  model->set_architecture("llama");
  model->set_num_layers(4);
  model->set_hidden_size(64);
  model->set_num_kv_heads(2);
  model->set_head_dim(16);
  info.add_bundles()->set_digest(std::string(MadeUp("another bundle").bytes()));
  info.add_bundles()->set_digest(std::string(MadeUp("bundle").bytes()));
  return info;
}

TEST(HandshakeTest, TheProducerOfTheBundlePasses) {
  EXPECT_TRUE(CheckProducerInfo(Expected(), GoodInfo()).ok());
}

TEST(HandshakeTest, AnythingElseIsRefusedByName) {
  struct Case {
    std::string expected;
    std::function<void(v1::ProducerInfo&)> change;
  };
  const std::vector<Case> cases = {
      {"model digest",
       [](v1::ProducerInfo& i) { i.mutable_model()->set_digest(std::string(MadeUp("x").bytes())); }},
      {"model digest", [](v1::ProducerInfo& i) { i.mutable_model()->set_digest("short"); }},
      {"tokenizer digest",
       [](v1::ProducerInfo& i) {
         i.mutable_model()->set_tokenizer_digest(std::string(MadeUp("x").bytes()));
       }},
      {"architecture", [](v1::ProducerInfo& i) { i.mutable_model()->set_architecture("qwen2"); }},
      {"num_layers", [](v1::ProducerInfo& i) { i.mutable_model()->set_num_layers(5); }},
      {"hidden_size", [](v1::ProducerInfo& i) { i.mutable_model()->set_hidden_size(65); }},
      {"num_kv_heads", [](v1::ProducerInfo& i) { i.mutable_model()->set_num_kv_heads(4); }},
      {"head_dim", [](v1::ProducerInfo& i) { i.mutable_model()->set_head_dim(8); }},
      {MadeUp("another bundle").ToHex(), [](v1::ProducerInfo& i) { i.mutable_bundles()->RemoveLast(); }},
      {"serves none", [](v1::ProducerInfo& i) { i.clear_bundles(); }},
      {"architecture", [](v1::ProducerInfo& i) { i.Clear(); }},
  };
  for (const Case& c : cases) {
    v1::ProducerInfo info = GoodInfo();
    c.change(info);
    const absl::Status status = CheckProducerInfo(Expected(), info);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find(c.expected), std::string::npos) << status << " lacks " << c.expected;
  }
}

LayerPlan SmallPlan() {
  LayerPlan plan;
  plan.layers = {{LayerTreatment::kReuse, 8, 12, 0}, {LayerTreatment::kPatch, 0, 0, 16}};
  return plan;
}

ExpectedHeader Asked() {
  return {.model = MadeUp("model"),
          .bundle = MadeUp("bundle"),
          .plan = SmallPlan(),
          .first_token = 1,
          .end_token = 100,
          .max_uncoded_tokens = 10};
}

v1::PrefillHeader GoodHeader() {
  v1::PrefillHeader header;
  header.set_model_digest(std::string(MadeUp("model").bytes()));
  header.set_bundle_digest(std::string(MadeUp("bundle").bytes()));
  *header.mutable_plan() = PlanToProto(SmallPlan());
  header.set_first_token(1);
  header.set_end_token(100);
  header.set_num_stored_tokens(64);
  return header;
}

TEST(HandshakeTest, HeaderThatAnswersTheRequest) {
  const auto header = CheckHeader(Asked(), GoodHeader());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->end_token, 100);
  EXPECT_EQ(header->stored_tokens, 64);
}

TEST(HandshakeTest, CodesMayEndEarlierByWhatWasAllowed) {
  v1::PrefillHeader header = GoodHeader();
  header.set_end_token(90);
  ASSERT_TRUE(CheckHeader(Asked(), header).ok());
  EXPECT_EQ(CheckHeader(Asked(), header)->end_token, 90);
  header.set_end_token(89);
  EXPECT_FALSE(CheckHeader(Asked(), header).ok());
}

TEST(HandshakeTest, HeaderThatDoesNotIsRefusedByName) {
  struct Case {
    std::string expected;
    std::function<void(v1::PrefillHeader&)> change;
  };
  const std::vector<Case> cases = {
      {"model digest", [](v1::PrefillHeader& h) { h.set_model_digest(std::string(MadeUp("x").bytes())); }},
      {"names bundle", [](v1::PrefillHeader& h) { h.set_bundle_digest(std::string(MadeUp("x").bytes())); }},
      {"plan", [](v1::PrefillHeader& h) { h.mutable_plan()->mutable_layers(0)->set_rank_k(7); }},
      {"plan", [](v1::PrefillHeader& h) { h.mutable_plan()->set_codec(v1::CODEC_F32); }},
      {"plan", [](v1::PrefillHeader& h) { h.mutable_plan()->mutable_layers()->RemoveLast(); }},
      {"", [](v1::PrefillHeader& h) { h.clear_plan(); }},
      {"first_token", [](v1::PrefillHeader& h) { h.set_first_token(0); }},
      {"end_token", [](v1::PrefillHeader& h) { h.set_end_token(101); }},
      {"end_token", [](v1::PrefillHeader& h) { h.set_end_token(1); }},
      {"end_token", [](v1::PrefillHeader& h) { h.set_end_token(4000000000u); }},
      {"num_stored_tokens", [](v1::PrefillHeader& h) { h.set_num_stored_tokens(100); }},
  };
  for (const Case& c : cases) {
    v1::PrefillHeader header = GoodHeader();
    c.change(header);
    const auto checked = CheckHeader(Asked(), header);
    ASSERT_FALSE(checked.ok()) << c.expected;
    EXPECT_NE(checked.status().message().find(c.expected), std::string::npos) << checked.status();
  }
}

}  // namespace
}  // namespace scd
