#include "eval/datasets/json_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Cut {
  std::vector<std::string> parts;
  bool last_complete = true;
  std::string ending;
};

Cut CutList(absl::string_view text) {
  Cut cut;
  JsonListCutter cutter = JsonListCutter::Create(text).value();
  while (const auto part = cutter.Next()) {
    cut.parts.emplace_back(part->text);
    cut.last_complete = part->complete;
  }
  cut.ending = std::string(cutter.ending().message());
  return cut;
}

TEST(JsonListCutterTest, ElementsAreCutAsTheyStand) {
  const Cut cut = CutList(R"( [1, "a,]\"[", {"b": [1, {"c": "}"}]} ,[[],[]],true] )");
  EXPECT_THAT(cut.parts, ElementsAre("1", R"("a,]\"[")", R"({"b": [1, {"c": "}"}]})", "[[],[]]", "true"));
  EXPECT_TRUE(cut.last_complete);
  EXPECT_EQ(cut.ending, "");
  EXPECT_THAT(CutList("[]").parts, IsEmpty());
  EXPECT_EQ(CutList("[ ]").ending, "");
}

TEST(JsonListCutterTest, WhereTheListCannotGoOn) {
  EXPECT_EQ(CutList("[").ending, "the file ends inside the list");
  EXPECT_EQ(CutList("[1,").ending, "the file ends inside the list");
  EXPECT_EQ(CutList("[{},").parts.size(), 1u);
  EXPECT_EQ(CutList("[{} {}]").ending, "expected a comma or the list's end after this record");
  EXPECT_EQ(CutList("[{}] 1").ending, "something follows the list's end");
  for (const char* text : {"[\"a", "[\"a\\", "[\"a\\\"", "[{", "[{\"", "[tru", "[[[]"}) {
    EXPECT_FALSE(CutList(text).last_complete) << text;
  }
  EXPECT_FALSE(JsonListCutter::Create("{}").ok());
  EXPECT_FALSE(JsonListCutter::Create(" ").ok());
}

TEST(JsonObjectCutterTest, MembersAndWhatFollows) {
  const JsonMembers object = CutJsonObject(R"( {"a": [1, {}], "b\u0063" : "}" } {"next")").value();
  ASSERT_EQ(object.members.size(), 2u);
  EXPECT_EQ(object.Find("a")->text, "[1, {}]");
  EXPECT_EQ(object.Find("bc")->text, "\"}\"");
  EXPECT_EQ(object.Find("b"), nullptr);
  EXPECT_TRUE(object.closed);
  EXPECT_EQ(object.rest, " {\"next\"");
  EXPECT_TRUE(CutJsonObject("{}").value().closed);
}

TEST(JsonObjectCutterTest, TruncatedAndBrokenObjects) {
  const JsonMembers open = CutJsonObject(R"({"a": 1, "b": [1, )").value();
  EXPECT_FALSE(open.closed);
  EXPECT_FALSE(open.Find("b")->complete);
  EXPECT_FALSE(CutJsonObject(R"({"a": [1])").value().closed);
  for (const char* text : {"", "[", "{", "{1: 2}", "{\"a\" 1}", "{\"a\": 1 \"b\": 2}", "{\"a\": 1, }", "{\"a",
                           "{\"a\"", "{\"a\": 1, \"a\": 2}", "{\"\\x\": 1}", "{\"\xff\": 1}"}) {
    EXPECT_FALSE(CutJsonObject(text).ok()) << text;
  }
  std::string wide = "{\"k0\": 0";
  for (int i = 1; i < 300; ++i) wide += ", \"k" + std::to_string(i) + "\": 0";
  EXPECT_THAT(CutJsonObject(wide + "}").status().message(), HasSubstr("too many keys"));
}

}  // namespace
}  // namespace scd
