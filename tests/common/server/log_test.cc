#include "common/server/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace scd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LogTest, WritesLinesFromItsLevelOn) {
  ::testing::internal::CaptureStderr();
  {
    const std::unique_ptr<Log> log = MakeStderrLog(LogLevel::kInfo);
    log->Debug("one");
    log->Info("two {} %s");
    log->Warning("three");
    log->Error("four");
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("one")));
  EXPECT_THAT(text, HasSubstr("info    two {} %s\n"));
  EXPECT_THAT(text, HasSubstr("warning three\n"));
  EXPECT_THAT(text, HasSubstr("error   four\n"));
}

TEST(LogTest, OutsideTextStaysOneShortWord) {
  EXPECT_EQ(LogSafe("request-1"), "request-1");
  EXPECT_EQ(LogSafe("a b\n\x7f\\"), "a\\x20b\\x0a\\x7f\\x5c");
  EXPECT_EQ(LogSafe("\xc3\xa9"), "\\xc3\\xa9");
  EXPECT_EQ(LogSafe(std::string(1000, 'x')).size(), 128u);
  EXPECT_LE(LogSafe(std::string(1000, '\n')).size(), 128u);
}

}  // namespace
}  // namespace scd
