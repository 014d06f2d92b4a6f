#include "eval/datasets/prompt_template.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace scd {
namespace {

struct NamedField {
  std::string_view name;
  const std::string QaItem::*field;
};

constexpr NamedField kFields[] = {{"context", &QaItem::context},
                                  {"question", &QaItem::question},
                                  {"title", &QaItem::title},
                                  {"id", &QaItem::id}};

absl::Status ErrorAt(std::size_t at, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("prompt template, byte ", at, ": ", what));
}

std::string KnownFields() {
  std::string known;
  for (const NamedField& field : kFields)
    absl::StrAppend(&known, known.empty() ? "{" : ", {", std::string(field.name), "}");
  return known;
}

}  // namespace

absl::StatusOr<PromptTemplate> PromptTemplate::Parse(std::string_view text) {
  std::vector<Piece> pieces(1);
  bool has_question = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && text.substr(at + 1, 1) == text.substr(at, 1)) {
      pieces.back().text.push_back(c);
      ++at;
    } else if (c == '}') {
      return ErrorAt(at, "a closing brace without an opening one; write }} for the brace itself");
    } else if (c == '{') {
      const std::size_t end = text.find_first_of("{}", at + 1);
      if (end == std::string_view::npos || text[end] != '}')
        return ErrorAt(at, "an opening brace without a closing one; write {{ for the brace itself");
      const std::string_view name = text.substr(at + 1, end - at - 1);
      const auto* const known =
          std::find_if(std::begin(kFields), std::end(kFields), [&](const NamedField& field) {
            return name == std::string_view(field.name.data(), field.name.size());
          });
      if (known == std::end(kFields)) {
        return ErrorAt(at, absl::StrCat("unknown field {", absl::CHexEscape(std::string(name.substr(0, 60))),
                                        "}; there are ", KnownFields()));
      }
      has_question |= known->field == &QaItem::question;
      pieces.back().field = known->field;
      pieces.back().name = std::string(name);
      pieces.emplace_back();
      at = end;
    } else {
      pieces.back().text.push_back(c);
    }
  }
  if (!has_question) return absl::InvalidArgumentError("prompt template: {question} is missing");
  return PromptTemplate(std::move(pieces));
}

absl::StatusOr<std::string> PromptTemplate::Render(const QaItem& item) const {
  if (item.prompt) return *item.prompt;
  std::string prompt;
  for (const Piece& piece : pieces_) {
    prompt += piece.text;
    if (piece.field == nullptr) continue;
    const std::string& value = item.*piece.field;
    if (value.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("question ", item.id, ": the prompt template uses {",
                                                     piece.name, "}, which it does not have"));
    }
    prompt += value;
  }
  return prompt;
}

}  // namespace scd
