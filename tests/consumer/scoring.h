// Score requests over loopback, for tests of what comes back.
#ifndef SCD_TESTS_CONSUMER_SCORING_H_
#define SCD_TESTS_CONSUMER_SCORING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/consumer/consumer_rig.h"

namespace scd::testing {

inline v1::ScoreRequest ScoreRequestFor(const std::vector<std::int32_t>& prompt,
                                        const std::vector<std::int32_t>& continuation,
                                        const std::string& mode, bool compare) {
  v1::ScoreRequest request;
  request.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.end());
  request.mutable_tokens()->mutable_ids()->Add(continuation.begin(), continuation.end());
  request.mutable_transfer()->set_mode(mode);
  request.mutable_transfer()->set_policy(v1::POLICY_REQUIRE);
  request.set_compare_with_native(compare);
  return request;
}

// Two daemons with one model.
class ScoringTest : public ::testing::Test {
 protected:
  v1::ScoreResponse Score(const v1::ScoreRequest& request) {
    v1::ScoreResponse response;
    const grpc::Status status = rig_.Score(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  ConsumerRig rig_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_CONSUMER_SCORING_H_
