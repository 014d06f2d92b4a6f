#include "common/store/warning_throttle.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::ElementsAre;

TEST(WarningThrottleTest, TheFirstAtOnceThenOneInAnInterval) {
  absl::Time now = absl::FromUnixSeconds(1000);
  std::vector<std::string> lines;
  WarningThrottle throttle([&](const std::string& line) { lines.push_back(line); }, [&] { return now; },
                           absl::Minutes(1));
  throttle.Warn("a");
  throttle.Warn("b");
  now += absl::Seconds(59);
  throttle.Warn("c");
  EXPECT_THAT(lines, ElementsAre("a"));
  now += absl::Seconds(1);
  throttle.Warn("d");
  now += absl::Hours(1);
  throttle.Warn("e");
  EXPECT_THAT(lines, ElementsAre("a", "d (and 2 more such since the last warning)", "e"));
}

TEST(WarningThrottleTest, NobodyNeedListen) {
  WarningThrottle throttle({}, [] { return absl::UnixEpoch(); });
  throttle.Warn("a");
}

}  // namespace
}  // namespace scd
