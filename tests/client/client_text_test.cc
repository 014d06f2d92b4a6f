#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/report.h"
#include "client/requests.h"

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(SplitPrompts, CutsAtLinesOfDashes) {
  EXPECT_THAT(SplitPrompts("a\nb\n---\nc\n"), ElementsAre("a\nb", "c"));
  EXPECT_THAT(SplitPrompts("a"), ElementsAre("a"));
  EXPECT_THAT(SplitPrompts("---\n---\na --- b\n\n---\n"), ElementsAre("a --- b\n"));
  EXPECT_THAT(SplitPrompts(""), IsEmpty());
  EXPECT_THAT(SplitPrompts("---"), IsEmpty());
}

TEST(ReadableBytes, ChoosesItsUnit) {
  EXPECT_EQ(ReadableBytes(0), "0 bytes");
  EXPECT_EQ(ReadableBytes(9'999), "9999 bytes");
  EXPECT_EQ(ReadableBytes(10 << 10), "10.0 KiB");
  EXPECT_EQ(ReadableBytes(3 << 19), "1.50 MiB");
  EXPECT_EQ(ReadableBytes(std::uint64_t{5} << 30), "5.00 GiB");
}

TEST(DescribeReport, SaysWhyAnotherModeServed) {
  v1::TransferReport report;
  report.set_mode("local");
  report.set_reason("producer_unavailable");
  report.set_detail("nothing answers at 10.0.0.1:7070");
  const std::string text = DescribeReport(report, "scd");
  EXPECT_THAT(
      text,
      HasSubstr("local instead of scd, because producer_unavailable (nothing answers at 10.0.0.1:7070)"));
  EXPECT_THAT(text, Not(HasSubstr("rebuild")));
  report.clear_reason();
  EXPECT_THAT(DescribeReport(report, "local"), HasSubstr("mode      local\n"));
}

TEST(JsonText, SurvivesTextThatIsNotUtf8) {
  EXPECT_EQ(JsonText({{"a", "\xFF"}}), "{\n  \"a\": \"\uFFFD\"\n}\n");
}

}  // namespace
}  // namespace scd
