#include "producer/request_check.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/frame_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/producer/producer_rig.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

class RequestCheckTest : public ::testing::Test {
 protected:
  v1::PrefillRequest Good() const {
    v1::PrefillRequest request;
    request.set_bundle_digest(std::string(tiny_.bundle(0).digest().bytes()));
    *request.mutable_plan() = PlanToProto(tiny_.Plan());
    for (const std::int32_t id : testing::TestTokens(20)) request.add_token_ids(id);
    request.set_first_token(1);
    request.set_end_token(20);
    return request;
  }
  absl::StatusOr<PrefillInput> Check(const v1::PrefillRequest& request) const {
    return CheckPrefillRequest(request, {.digest = tiny_.model().digest,
                                         .vocab_size = tiny_.model().config.vocab_size,
                                         .max_prompt_tokens = 64,
                                         .bundles = &tiny_.bundles()});
  }

  testing::TinyProducer& tiny_ = testing::SharedTinyProducer();
};

TEST_F(RequestCheckTest, TakesAGoodOne) {
  const auto input = Check(Good());
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->bundle, &tiny_.bundle(0));
  EXPECT_EQ(input->token_ids, testing::TestTokens(20));
  EXPECT_EQ(input->first_token, 1);
  EXPECT_EQ(input->plan.layers, tiny_.Plan().layers);
  EXPECT_TRUE(input->page_keys.empty());
  EXPECT_TRUE(input->code_keys.empty());
}

TEST_F(RequestCheckTest, NamesTheFieldThatIsWrong) {
  using Change = std::function<void(v1::PrefillRequest&)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"bundle_digest: has 0 bytes, expected 16", [](auto& r) { r.clear_bundle_digest(); }},
      {"bundle_digest: has 17 bytes", [](auto& r) { r.mutable_bundle_digest()->push_back('x'); }},
      {"token_ids: has 20 tokens, but end_token is 19", [](auto& r) { r.set_end_token(19); }},
      {"token_ids: has 20 tokens, but end_token is 4294967295", [](auto& r) { r.set_end_token(0xffffffff); }},
      {"token_ids: has 21 tokens", [](auto& r) { r.add_token_ids(0); }},
      {"first_token: 20 is not before end_token 20", [](auto& r) { r.set_first_token(20); }},
      {"first_token: 4294967295 is not before", [](auto& r) { r.set_first_token(0xffffffff); }},
      {"first_token: 0 is not before end_token 0",
       [](auto& r) {
         r.clear_token_ids();
         r.set_first_token(0);
         r.set_end_token(0);
       }},
      {"token_ids[3]: -1 is outside the vocabulary of 1024", [](auto& r) { r.set_token_ids(3, -1); }},
      {"token_ids[19]: 1024 is outside the vocabulary", [](auto& r) { r.set_token_ids(19, 1024); }},
      {"token_ids[0]: 1001 means another text", [](auto& r) { r.set_token_ids(0, 1001); }},
      {"end_token: 65 is over this producer's longest prompt of 64 tokens",
       [](auto& r) {
         while (r.token_ids_size() < 65) r.add_token_ids(0);
         r.set_end_token(65);
       }},
      {"plan", [](auto& r) { r.clear_plan(); }},
      {"plan", [](auto& r) { r.mutable_plan()->clear_codec(); }},
      {"plan", [](auto& r) { r.mutable_plan()->set_codec(static_cast<v1::Codec>(77)); }},
      {"plan", [](auto& r) { r.mutable_plan()->mutable_layers()->RemoveLast(); }},
      {"plan", [](auto& r) { r.mutable_plan()->add_layers(); }},
      {"plan", [](auto& r) { *r.mutable_plan()->add_layers() = r.plan().layers(0); }},
      {"rank_k", [](auto& r) { r.mutable_plan()->mutable_layers(0)->set_rank_k(17); }},
      {"rank_k", [](auto& r) { r.mutable_plan()->mutable_layers(0)->set_rank_k(0); }},
      {"rank_k", [](auto& r) { r.mutable_plan()->mutable_layers(0)->set_rank_k(0xffffffff); }},
      {"rank_v", [](auto& r) { r.mutable_plan()->mutable_layers(0)->set_rank_v(17); }},
      {"rank_h", [](auto& r) { r.mutable_plan()->mutable_layers(0)->set_rank_h(8); }},
      {"plan",
       [](auto& r) {
         r.mutable_plan()->mutable_layers(0)->set_treatment(v1::TREATMENT_PATCH);
         r.mutable_plan()->mutable_layers(0)->set_rank_h(8);
       }},
  };
  for (const auto& [expected, change] : cases) {
    v1::PrefillRequest request = Good();
    change(request);
    const absl::Status status = Check(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << expected << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
  }
}

TEST_F(RequestCheckTest, TheLargestRankIsInTheMessage) {
  v1::PrefillRequest request = Good();
  request.mutable_plan()->mutable_layers(0)->set_rank_k(17);
  EXPECT_THAT(std::string(Check(request).status().message()), HasSubstr("16"));
}

TEST_F(RequestCheckTest, AnUnknownBundleIsAPrecondition) {
  v1::PrefillRequest request = Good();
  request.set_bundle_digest(std::string(16, 'x'));
  const absl::Status status = Check(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(tiny_.bundle(0).digest().ToHex()));
}

}  // namespace
}  // namespace scd
