#include "common/server/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordingLog : public Log {
 public:
  void Write(LogLevel, std::string_view message) override { lines.emplace_back(message); }
  std::vector<std::string> lines;
};

TEST(ProgressTest, DurationsAreForPeople) {
  EXPECT_EQ(Progress::Duration(0.2), "1 s");
  EXPECT_EQ(Progress::Duration(59), "59 s");
  EXPECT_EQ(Progress::Duration(72), "1 min 12 s");
  EXPECT_EQ(Progress::Duration(3 * 3600 + 61), "3 h 1 min");
}

TEST(ProgressTest, TextHasAnEstimateOnlyWhenOneIsKnown) {
  EXPECT_EQ(Progress::Text("traces", "prefixes", 40, 90, 72), "traces: 40 of 90 prefixes, 1 min 12 s left");
  EXPECT_EQ(Progress::Text("traces", "prefixes", 0, 90, -1), "traces: 0 of 90 prefixes");
}

TEST(ProgressTest, ShortStagesSayNothingAndLongOnesALineNowAndThen) {
  RecordingLog log;
  {
    Progress progress(log, {.first_after_s = 1000.0}, "fits", "layers", 10);
    for (int i = 0; i < 10; ++i) progress.Add(1);
  }
  EXPECT_THAT(log.lines, IsEmpty());
  {
    Progress progress(log, {.first_after_s = 0.0, .log_interval_s = 1000.0}, "fits", "layers", 10, 4);
    progress.Set(6);
    progress.Set(7);
  }
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_THAT(log.lines[0], HasSubstr("fits: 6 of 10 layers, "));
  EXPECT_THAT(log.lines[0], HasSubstr(" left"));
}

}  // namespace
}  // namespace scd
