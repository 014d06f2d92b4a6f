#include "common/model/chat_template_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace scd {
namespace {

using ::testing::HasSubstr;

TEST(ChatTemplateSourceTest, LooksInBothFiles) {
  testing::TempDir dir;
  EXPECT_EQ(ChatTemplateSource(dir.path()).value(), "");
  testing::WriteFile(dir.File("tokenizer_config.json"), R"({"bos_token": "<s>"})");
  EXPECT_EQ(ChatTemplateSource(dir.path()).value(), "");
  testing::WriteFile(dir.File("tokenizer_config.json"), R"({"chat_template": "A"})");
  EXPECT_EQ(ChatTemplateSource(dir.path()).value(), "A");
  testing::WriteFile(
      dir.File("tokenizer_config.json"),
      R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  EXPECT_EQ(ChatTemplateSource(dir.path()).value(), "D");
  testing::WriteFile(dir.File("chat_template.jinja"), "J");
  EXPECT_EQ(ChatTemplateSource(dir.path()).value(), "J");
  testing::WriteFile(dir.File("chat_template.jinja"), std::string((1 << 20) + 1, 'J'));
  EXPECT_THAT(std::string(ChatTemplateSource(dir.path()).status().message()), HasSubstr("is larger than"));
}

TEST(ChatTemplateSourceTest, NamesWhatIsWrong) {
  testing::TempDir dir;
  testing::WriteFile(dir.File("tokenizer_config.json"), R"({"chat_template": 5})");
  EXPECT_THAT(std::string(ChatTemplateSource(dir.path()).status().message()),
              HasSubstr("tokenizer_config.json: chat_template: expected a string, got 5"));
  testing::WriteFile(dir.File("tokenizer_config.json"), R"({"chat_template": ["x"]})");
  EXPECT_THAT(std::string(ChatTemplateSource(dir.path()).status().message()),
              HasSubstr("expected a JSON object"));
  testing::WriteFile(dir.File("tokenizer_config.json"), "[");
  EXPECT_FALSE(ChatTemplateSource(dir.path()).ok());
}

}  // namespace
}  // namespace scd
