#include "eval/datasets/prompt_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace scd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

QaItem Item() {
  QaItem item;
  item.id = "k1";
  item.title = "Kiln";
  item.context = "Built in {1807}.";
  item.question = "When?";
  return item;
}

std::string Rendered(std::string_view text) {
  return PromptTemplate::Parse(text).value().Render(Item()).value();
}

std::string Error(std::string_view text) {
  const auto parsed = PromptTemplate::Parse(text);
  EXPECT_FALSE(parsed.ok()) << text;
  return std::string(parsed.status().message());
}

TEST(PromptTemplateTest, FieldsAreFilledIn) {
  EXPECT_EQ(Rendered(kDefaultPromptTemplate), "Context: Built in {1807}.\nQuestion: When?\nAnswer:");
  EXPECT_EQ(Rendered("{id}|{title}|{question}{question}"), "k1|Kiln|When?When?");
}

TEST(PromptTemplateTest, DoubledBracesAreBraces) {
  EXPECT_EQ(Rendered("{{question}} {question} }}{{"), "{question} When? }{");
  EXPECT_EQ(Rendered("{{{question}}}"), "{When?}");
}

TEST(PromptTemplateTest, UnknownFieldsAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(Error("{question} {contxt}"), AllOf(HasSubstr("byte 11"), HasSubstr("unknown field {contxt}"),
                                                  HasSubstr("{context}, {question}, {title}, {id}")));
  EXPECT_THAT(Error("{question}{}"), HasSubstr("unknown field {}"));
  EXPECT_THAT(Error("{ question }"), HasSubstr("unknown field"));
}

TEST(PromptTemplateTest, BracesThatDoNotMatchAreRefused) {
  EXPECT_THAT(Error("{question} {context"), HasSubstr("byte 11: an opening brace"));
  EXPECT_THAT(Error("{question} {con{text}"), HasSubstr("byte 11: an opening brace"));
  EXPECT_THAT(Error("{question} }"), HasSubstr("byte 11: a closing brace"));
  EXPECT_THAT(Error("{"), HasSubstr("opening brace"));
}

TEST(PromptTemplateTest, TheQuestionHasToBeThere) {
  EXPECT_THAT(Error("Context: {context}"), HasSubstr("{question} is missing"));
  EXPECT_THAT(Error(""), HasSubstr("{question} is missing"));
  EXPECT_THAT(Error("{{question}}"), HasSubstr("{question} is missing"));
}

TEST(PromptTemplateTest, AnItemWithoutAFieldIsAnError) {
  const PromptTemplate prompt = PromptTemplate::Parse("{title}: {question}").value();
  QaItem item = Item();
  item.title.clear();
  EXPECT_THAT(prompt.Render(item).status().message(), AllOf(HasSubstr("question k1"), HasSubstr("{title}")));
}

TEST(PromptTemplateTest, AnItemsOwnPromptIsTakenAsItIs) {
  QaItem item;
  item.prompt = "Say {question}:";
  EXPECT_EQ(PromptTemplate::Parse(kDefaultPromptTemplate).value().Render(item).value(), "Say {question}:");
}

}  // namespace
}  // namespace scd
