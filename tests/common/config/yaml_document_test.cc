#include "common/config/yaml_document.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

std::string ParseError(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const auto document = YamlDocument::Parse(text, "f.yaml", overrides);
  if (document.ok()) return "";
  EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(document.status().message());
}

TEST(YamlDocumentTest, KeepsOrderQuotesAndLines) {
  const auto document = YamlDocument::Parse("# comment\nb: 1\na:\n  - \"1\"\n  - x y\nn:\n", "f.yaml");
  ASSERT_TRUE(document.ok()) << document.status();
  const YamlNode& root = document->root();
  ASSERT_EQ(root.entries.size(), 3u);
  EXPECT_EQ(root.entries[0].first, "b");
  EXPECT_EQ(root.Find("b")->line, 2);
  EXPECT_FALSE(root.Find("b")->quoted);
  ASSERT_EQ(root.Find("a")->items.size(), 2u);
  EXPECT_TRUE(root.Find("a")->items[0].quoted);
  EXPECT_EQ(root.Find("a")->items[1].scalar, "x y");
  EXPECT_EQ(root.Find("a")->items[1].Location(), "f.yaml:5");
  EXPECT_EQ(root.Find("n")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.Find("none"), nullptr);
}

TEST(YamlDocumentTest, AnEmptyFileIsAnEmptyMap) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n"}) {
    const auto document = YamlDocument::Parse(text, "f.yaml");
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->root().kind, YamlNode::Kind::kMap);
    EXPECT_TRUE(document->root().entries.empty());
  }
}

TEST(YamlDocumentTest, SaysWhereAndWhatIsRefused) {
  EXPECT_EQ(ParseError("a: 1\nb: 2\na: 3\n"), "f.yaml:3: the key \"a\" is there twice");
  EXPECT_EQ(ParseError("a: {b: 1, b: 2}\n"), "f.yaml:1: the key \"b\" is there twice");
  EXPECT_EQ(ParseError("a: &x 1\n"), "f.yaml:1: anchors (&name) are not allowed");
  EXPECT_THAT(ParseError("a: 1\nb: *a\n"), HasSubstr("f.yaml:2: "));
  EXPECT_EQ(ParseError("a: !!str 1\n"), "f.yaml:1: tags are not allowed: tag:yaml.org,2002:str");
  EXPECT_THAT(ParseError("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_EQ(ParseError("a: 1\nb:\tx\n"), "f.yaml:2: has a tab character: use spaces");
  EXPECT_EQ(ParseError(std::string("a: \0\n", 5)), "f.yaml:1: has the control character 0");
  EXPECT_EQ(ParseError("? [x]\n: 1\n"), "f.yaml:1: a key must be plain text (is a bracket left open?)");
  EXPECT_EQ(ParseError("~: 1\n"), "f.yaml:1: a key is missing");
  EXPECT_EQ(ParseError("- 1\n"), "f.yaml:1: expected sections and keys (key: value)");
  EXPECT_EQ(ParseError("\njust text\n"), "f.yaml:2: expected sections and keys (key: value)");
  EXPECT_THAT(ParseError("a: [1, 2\n"), HasSubstr("is not valid YAML"));
  EXPECT_THAT(ParseError("a: \"x\nb: 1\n\n"), HasSubstr("is not valid YAML"));
  EXPECT_THAT(ParseError("a: 'x \n"), HasSubstr("is not valid YAML"));
}

TEST(YamlDocumentTest, RefusesWhatIsNotUtf8) {
  for (const char* bytes : {"\xff\xfe", "\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(ParseError(std::string("a: ") + bytes), "f.yaml:1: is not valid UTF-8");
  }
  EXPECT_EQ(ParseError("a: \xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80\n"), "");
}

TEST(YamlDocumentTest, BoundsSizeAndDepth) {
  EXPECT_THAT(ParseError(std::string(kMaxYamlBytes + 1, 'a')),
              HasSubstr("is over the limit of 262144 bytes"));
  EXPECT_EQ(ParseError("a: " + std::string(14, '[') + std::string(14, ']')), "");
  EXPECT_EQ(ParseError("a: " + std::string(16, '[') + std::string(16, ']')),
            "f.yaml:1: is nested more than 16 levels deep");
  const auto start = std::chrono::steady_clock::now();
  for (const char* piece : {"[", "{", "- ", "? ", "a: {", "[[{", "\"", "- - \n", "!", "&a ", "| ", "'"}) {
    std::string text;
    while (text.size() + 8 < kMaxYamlBytes) text += piece;
    EXPECT_NE(ParseError(text), "") << piece;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(YamlDocumentTest, OverridesSetValuesOfAnyKindAndMakeSections) {
  const auto document = YamlDocument::Parse(
      "a:\n  b: 1\nkeep: x\n", "f.yaml",
      {"a.b=2", "new.section.list=[1, 2]", "text=127.0.0.1:0", "with_equals=a=b", "a.b=3", "empty="});
  ASSERT_TRUE(document.ok()) << document.status();
  const YamlNode& root = document->root();
  EXPECT_EQ(root.Find("a")->Find("b")->scalar, "3");
  EXPECT_EQ(root.Find("a")->Find("b")->Location(), "--set a.b=3");
  EXPECT_EQ(root.Find("new")->Find("section")->Find("list")->items.size(), 2u);
  EXPECT_EQ(root.Find("text")->scalar, "127.0.0.1:0");
  EXPECT_EQ(root.Find("with_equals")->scalar, "a=b");
  EXPECT_EQ(root.Find("empty")->kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.Find("keep")->scalar, "x");
}

TEST(YamlDocumentTest, OverridesAreAsStrictAsTheFile) {
  EXPECT_EQ(ParseError("", {"a"}), "--set a: expected section.key=value");
  EXPECT_EQ(ParseError("", {"=1"}), "--set =1: expected section.key=value");
  EXPECT_EQ(ParseError("", {"a..b=1"}), "--set a..b=1: expected section.key=value");
  EXPECT_THAT(ParseError("", {"a=*x"}), HasSubstr("--set a=*x: "));
  EXPECT_THAT(ParseError("", {"a=&x 1"}), HasSubstr("anchors (&name) are not allowed"));
  EXPECT_THAT(ParseError("", {"a=[1"}), HasSubstr("is a bracket left open?"));
  EXPECT_THAT(ParseError("", {"a=\xff"}), HasSubstr("is not valid UTF-8"));
  EXPECT_THAT(ParseError("a: 1\n", {"a.b=1"}), HasSubstr("is not a section (f.yaml:1)"));
  EXPECT_THAT(ParseError("a: [1]\n", {"a.0=1"}), HasSubstr("is not a section (f.yaml:1)"));
}

TEST(YamlDocumentTest, LoadNamesThePath) {
  const testing::TempDir dir;
  EXPECT_EQ(YamlDocument::Load(dir.File("none.yaml")).status().code(), absl::StatusCode::kNotFound);
  const auto folder = YamlDocument::Load(dir.path());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr(dir.path()));
  testing::WriteFile(dir.File("c.yaml"), "a: 1\n");
  const auto document = YamlDocument::Load(dir.File("c.yaml"), std::vector<std::string>{"a=2"});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->root().Find("a")->scalar, "2");
}

TEST(YamlDocumentTest, EveryHostileCaseFailsClearly) {
  SCD_SHARED_OR_SKIP(cases, "cases/yaml");
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    ++num_files;
    const auto start = std::chrono::steady_clock::now();
    const auto document = YamlDocument::Load(entry.path().string());
    EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument) << entry.path();
    EXPECT_THAT(std::string(document.status().message()), HasSubstr(entry.path().string()));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << entry.path();
  }
  EXPECT_GE(num_files, 4);
}

}  // namespace
}  // namespace scd
