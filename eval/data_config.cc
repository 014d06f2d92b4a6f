#include "eval/data_config.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace scd {
namespace {

constexpr IntRange kItems = {.min = 0, .max = 1 << 20};
constexpr IntRange kTokens = {.min = 1, .max = 1 << 20, .unit = "tokens"};

// A word of a list, or auto for none.
template <typename E, typename Parse>
void WordOrAuto(YamlSection& section, std::string_view key, Parse parse,
                const std::vector<std::string>& names, std::optional<E>* value) {
  if (!section.Has(key)) return;
  std::string word;
  section.String(key, &word);
  *value = parse(word);
  if (*value || word == "auto") return;
  section.Fail(key, absl::StrCat("\"", word, "\" is none of auto, ", absl::StrJoin(names, ", ")));
}

std::vector<std::string> ScorerNames() {
  std::vector<std::string> names;
  for (const std::string_view name : QaScorerNames()) names.emplace_back(name);
  return names;
}

}  // namespace

void ReadDataConfig(YamlSection section, DataConfig* config) {
  YamlSection windows = section.Section("windows");
  windows.String("path", &config->windows.path);
  WordOrAuto(windows, "format", ParseLmFormat, LmFormatNames(), &config->windows.format);
  windows.Int("count", &config->windows.count, kItems);
  windows.Int("prefix_tokens", &config->windows.prefix_tokens, kTokens);
  windows.Int("continuation_tokens", &config->windows.continuation_tokens, kTokens);

  YamlSection questions = section.Section("questions");
  QuestionsConfig& wanted = config->questions;
  questions.String("path", &wanted.path);
  WordOrAuto(questions, "format", ParseQaFormat, QaFormatNames(), &wanted.format);
  questions.Int("count", &wanted.count, kItems);
  questions.String("prompt", &wanted.prompt);
  WordOrAuto(questions, "scorer", ParseQaScorer, ScorerNames(), &wanted.scorer);
  if (const auto parsed = PromptTemplate::Parse(wanted.prompt); !parsed.ok()) {
    questions.Fail("prompt", std::string(parsed.status().message()));
  }
  section.Bool("skip_malformed", &config->skip_malformed);
}

}  // namespace scd
