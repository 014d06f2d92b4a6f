#include "common/io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ParseError(absl::string_view text) {
  const auto parsed = ParseJson(text, "x.json");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

std::string Nested(int depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ParseJsonTest, BuildsTheDocument) {
  const auto parsed =
      ParseJson(R"({"a": [1, -2, 2.5, true, null, {"b": "c\u00e9"}], "d": {}, "e": []})", "x.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed,
            nlohmann::json::parse(R"({"a": [1, -2, 2.5, true, null, {"b": "c\u00e9"}], "d": {}, "e": []})"));
  EXPECT_EQ(*ParseJson(" 7 ", "x.json"), nlohmann::json(7));
}

TEST(ParseJsonTest, RefusesWhatIsNotOneDocument) {
  for (const char* bad :
       {"", "{", "[1,]", "{\"a\" 1}", "1 2", "{} x", "nul", "\"\xff\"", "\"\\ud800\"", "1e999", "NaN"}) {
    EXPECT_THAT(ParseError(bad), StartsWith("x.json: not valid JSON")) << bad;
  }
}

TEST(ParseJsonTest, RefusesDuplicateKeys) {
  EXPECT_THAT(ParseError(R"({"a": 1, "b": {"a": 2}, "a": 3})"), HasSubstr("\"a\" stands twice"));
  EXPECT_TRUE(ParseJson(R"({"a": 1, "b": {"a": 2}})", "x.json").ok());
}

TEST(ParseJsonTest, BoundsTheDepth) {
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonDepth), "x.json").ok());
  EXPECT_THAT(ParseError(Nested(kMaxJsonDepth + 1)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(ParseError(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
}

TEST(ParseJsonTest, BoundsTheNumberOfValues) {
  std::string text = "[0";
  for (std::size_t i = 2; i < kMaxJsonValues; ++i) text += ",0";  // the array itself is one
  EXPECT_THAT(ParseError(text + ",0]"), HasSubstr("has more than 4000000 values"));
  EXPECT_THAT(ParseError(text + ",[]]"), HasSubstr("has more than 4000000 values"));
}

TEST(ParseJsonFileTest, BoundsTheSize) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("a.json"), "[1, 2, 3]");
  EXPECT_TRUE(ParseJsonFile(dir.File("a.json")).ok());
  const auto refused = ParseJsonFile(dir.File("a.json"), 8).status();
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(dir.File("a.json")), HasSubstr("more than the 8 allowed")));
  EXPECT_EQ(ParseJsonFile(dir.File("b.json")).status().code(), absl::StatusCode::kNotFound);
}

class JsonObjectTest : public ::testing::Test {
 protected:
  JsonObject Root() { return JsonObject::Create(document_, "x.json").value(); }

  nlohmann::json document_ = nlohmann::json::parse(
      R"({"i": 64, "big": 18446744073709551615, "d": 2.5, "t": true, "s": "text", "o": {"in": -1}, "n": null})");
};

TEST_F(JsonObjectTest, ReadsTypedFields) {
  const JsonObject root = Root();
  EXPECT_EQ(root.Int("i", 1, 100).value(), 64);
  EXPECT_EQ(root.Double("d", 0, 10).value(), 2.5);
  EXPECT_EQ(root.Double("i", 0, 100).value(), 64.0);
  EXPECT_TRUE(root.Bool("t").value());
  EXPECT_EQ(root.String("s").value(), "text");
  EXPECT_EQ(root.Object("o")->Int("in", -5, 5).value(), -1);
  EXPECT_TRUE(root.Has("i"));
  EXPECT_FALSE(root.Has("n"));
  EXPECT_FALSE(root.Has("absent"));
  EXPECT_EQ(root.Find("absent"), nullptr);
  EXPECT_TRUE(root.Find("n")->is_null());
}

TEST_F(JsonObjectTest, NamesTheFieldThatIsWrong) {
  const JsonObject root = Root();
  const auto expect_error = [](const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), what);
  };
  expect_error(root.Int("i", 65, 100).status(), "x.json: i: expected an integer in [65, 100], got 64");
  expect_error(root.Int("s", 1, 2).status(), "x.json: s: expected an integer in [1, 2], got \"text\"");
  expect_error(root.Int("big", 1, INT64_MAX).status(),
               "x.json: big: expected an integer in [1, 9223372036854775807], got 18446744073709551615");
  expect_error(root.Int("d", 1, 2).status(), "x.json: d: expected an integer in [1, 2], got 2.5");
  expect_error(root.Int("n", 1, 2).status(), "x.json: n: missing; expected an integer");
  expect_error(root.Double("s", 0, 1).status(), "x.json: s: expected a number in [0, 1], got \"text\"");
  expect_error(root.Double("d", 0, 1).status(), "x.json: d: expected a number in [0, 1], got 2.5");
  expect_error(root.Bool("i").status(), "x.json: i: expected true or false, got 64");
  expect_error(root.String("o").status(), "x.json: o: expected a string, got an object");
  expect_error(root.Object("s").status(), "x.json: s: expected a JSON object, got \"text\"");
  expect_error(root.Object("o")->Int("in", 0, 5).status(),
               "x.json: o: in: expected an integer in [0, 5], got -1");
  expect_error(JsonObject::Create(nlohmann::json::array(), "y.json").status(),
               "y.json: expected a JSON object, got an array");
}

}  // namespace
}  // namespace scd
