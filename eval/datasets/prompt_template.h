// How a question becomes a prompt: text with the fields of an item in braces, "{{" and "}}" for the braces
// themselves.
#ifndef SCD_EVAL_DATASETS_PROMPT_TEMPLATE_H_
#define SCD_EVAL_DATASETS_PROMPT_TEMPLATE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "eval/datasets/items.h"

namespace scd {

inline constexpr std::string_view kDefaultPromptTemplate =
    "Context: {context}\nQuestion: {question}\nAnswer:";

class PromptTemplate {
 public:
  // Fields: id, title, context, question; {question} has to be there. INVALID_ARGUMENT saying at which byte
  // the template is wrong, and for an unknown field which there are.
  static absl::StatusOr<PromptTemplate> Parse(std::string_view text);

  // The item's own prompt where it has one. Otherwise every field that the template uses has to be there:
  // INVALID_ARGUMENT naming the one that is empty.
  absl::StatusOr<std::string> Render(const QaItem& item) const;

 private:
  struct Piece {
    std::string text;                            // before the field
    const std::string QaItem::*field = nullptr;  // null: none
    std::string name;
  };
  explicit PromptTemplate(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  std::vector<Piece> pieces_;
};

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_PROMPT_TEMPLATE_H_
