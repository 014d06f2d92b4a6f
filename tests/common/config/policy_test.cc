#include "common/config/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace scd {
namespace {

TEST(TransferPolicyTest, EveryNameIsReadBack) {
  for (const auto policy : {TransferPolicy::kRequire, TransferPolicy::kPrefer, TransferPolicy::kOff}) {
    const auto parsed = ParseTransferPolicy(TransferPolicyName(policy));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, policy);
  }
  EXPECT_EQ(TransferPolicyName(TransferPolicy::kPrefer), "prefer");
}

TEST(TransferPolicyTest, AnythingElseIsRefusedWithTheNames) {
  for (const char* name : {"", "Require", "prefer ", "on", "true"}) {
    const auto parsed = ParseTransferPolicy(name);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(parsed.status().message()),
                ::testing::HasSubstr("\"require\", \"prefer\" or \"off\""));
  }
}

}  // namespace
}  // namespace scd
