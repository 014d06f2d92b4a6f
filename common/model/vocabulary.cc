#include "common/model/vocabulary.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"

namespace scd {

absl::Status Vocabulary::Add(std::int32_t id, std::string_view text) {
  const auto error = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("token \"", absl::CHexEscape(ToAbsl(text.substr(0, 60))),
                                                   "\" with id ", id, ": ", ToAbsl(what)));
  };
  if (id < 0 || id > kMaxTokenId) return error(absl::StrCat("the id is outside [0, ", kMaxTokenId, "]"));
  if (text.empty()) return error("the text is empty");
  if (text.size() > kMaxTokenBytes) {
    return error(absl::StrCat("has ", text.size(), " bytes, more than the ", kMaxTokenBytes, " allowed"));
  }
  if (!IsValidUtf8(text)) return error("the text is not UTF-8");
  if (const Token* other = Find(id)) {
    return error(absl::StrCat("the id belongs to \"", absl::CHexEscape(other->text), "\" already"));
  }
  const auto [it, inserted] = ids_.emplace(std::string(text), id);
  if (!inserted) return error(absl::StrCat("the text has id ", it->second, " already"));
  Reserve(id + 1);
  tokens_[static_cast<std::size_t>(id)] = {std::string(text), std::string(text), false, true};
  return absl::OkStatus();
}

void Vocabulary::Reserve(std::int32_t size) {
  tokens_.resize(std::max(tokens_.size(), static_cast<std::size_t>(size)));
}

const Token* Vocabulary::Find(std::int32_t id) const {
  if (id < 0 || id >= size()) return nullptr;
  const Token& token = tokens_[static_cast<std::size_t>(id)];
  return token.present ? &token : nullptr;
}

std::optional<std::int32_t> Vocabulary::Id(std::string_view text) const {
  const auto it = ids_.find(ToAbsl(text));
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

}  // namespace scd
