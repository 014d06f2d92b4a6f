#include "eval/datasets/json_split.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/io/json.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr absl::string_view kSpaces = " \t\r\n";

std::size_t SkipSpaces(absl::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kSpaces, at), text.size());
}

// The end of the string whose quotation mark is at `at`; absent where the text ends inside it.
std::optional<std::size_t> StringEnd(absl::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return std::nullopt;
}

// The value that starts at `at`: a string, something in brackets, or what stands before the next comma,
// closing bracket or white space.
JsonPart ValueAt(absl::string_view text, std::size_t at) {
  const std::size_t begin = at;
  const JsonPart unfinished{text.substr(begin), false};
  std::size_t depth = 0;
  while (at < text.size()) {
    switch (text[at]) {
      case '"': {
        const std::optional<std::size_t> end = StringEnd(text, at);
        if (!end) return unfinished;
        at = *end;
        if (depth == 0) return {text.substr(begin, at - begin), true};
        break;
      }
      case '[':
      case '{':
        ++depth;
        ++at;
        break;
      case ']':
      case '}':
        if (depth == 0) return {text.substr(begin, at - begin), true};
        ++at;
        if (--depth == 0) return {text.substr(begin, at - begin), true};
        break;
      case ',':
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        if (depth == 0) return {text.substr(begin, at - begin), true};
        ++at;
        break;
      default:
        ++at;
    }
  }
  return unfinished;
}

}  // namespace

absl::StatusOr<JsonListCutter> JsonListCutter::Create(absl::string_view text) {
  text.remove_prefix(SkipSpaces(text, 0));
  if (text.empty() || text[0] != '[') return absl::InvalidArgumentError("expected a JSON list");
  return JsonListCutter(text);
}

std::optional<JsonPart> JsonListCutter::End(absl::string_view what) {
  if (!what.empty()) ending_ = absl::InvalidArgumentError(what);
  at_ = text_.size();
  text_ = {};
  return std::nullopt;
}

std::optional<JsonPart> JsonListCutter::Next() {
  if (text_.empty()) return std::nullopt;
  at_ = SkipSpaces(text_, at_);
  if (at_ == text_.size()) return End("the file ends inside the list");
  if (text_[at_] == ']') {
    return End(SkipSpaces(text_, at_ + 1) == text_.size() ? "" : "something follows the list's end");
  }
  if (!first_) {
    if (text_[at_] != ',') return End("expected a comma or the list's end after this record");
    at_ = SkipSpaces(text_, at_ + 1);
  }
  first_ = false;
  if (at_ == text_.size()) return End("the file ends inside the list");
  const JsonPart part = ValueAt(text_, at_);
  at_ += part.text.size();
  return part;
}

const JsonPart* JsonMembers::Find(absl::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

absl::StatusOr<JsonMembers> CutJsonObject(absl::string_view text) {
  std::size_t at = SkipSpaces(text, 0);
  if (at == text.size() || text[at] != '{') return absl::InvalidArgumentError("expected a JSON object");
  JsonMembers object;
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON near byte ", at, ": ", what));
  };
  at = SkipSpaces(text, at + 1);
  if (at < text.size() && text[at] == '}') {
    object.rest = text.substr(at + 1);
    object.closed = true;
    return object;
  }
  while (true) {
    if (at == text.size() || text[at] != '"') return error("expected a key");
    const std::optional<std::size_t> end = StringEnd(text, at);
    if (!end) return error("the file ends inside a key");
    SCD_ASSIGN_OR_RETURN(const nlohmann::json key, ParseJson(text.substr(at, *end - at), "key"));
    if (object.Find(key.get_ref<const std::string&>()) != nullptr) return error("a key that stands twice");
    if (object.members.size() == kMaxJsonMembers) return error("too many keys");
    at = SkipSpaces(text, *end);
    if (at == text.size() || text[at] != ':') return error("expected a colon");
    at = SkipSpaces(text, at + 1);
    object.members.push_back({key.get<std::string>(), ValueAt(text, at)});
    at = SkipSpaces(text, at + object.members.back().value.text.size());
    if (at == text.size()) return object;
    if (text[at] == '}') break;
    if (text[at] != ',') return error("expected a comma or the object's end");
    at = SkipSpaces(text, at + 1);
  }
  object.rest = text.substr(at + 1);
  object.closed = true;
  return object;
}

}  // namespace scd
