#include "common/model/added_tokens.h"

#include <utility>

#include "common/model/unicode.h"

namespace scd {
namespace {

std::uint64_t Edge(std::int32_t node, char byte) {
  return static_cast<std::uint64_t>(node) << 8 | static_cast<std::uint8_t>(byte);
}

// Where the last character of non-empty valid UTF-8 begins.
std::size_t LastCharacter(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool EndsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(DecodeUtf8(text.substr(LastCharacter(text))));
}

bool StartsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(DecodeUtf8(text));
}

std::size_t SpacesAtEnd(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t at = LastCharacter(text.substr(0, end));
    if (!IsWhitespace(DecodeUtf8(text.substr(at)))) break;
    end = at;
  }
  return text.size() - end;
}

std::size_t SpacesAtStart(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && IsWhitespace(DecodeUtf8(text.substr(at)))) at += Utf8Length(text[at]);
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), token_of_node_{-1} {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::int32_t node = kRoot;
    for (const char c : tokens_[i].content) {
      const auto [it, inserted] =
          edges_.emplace(Edge(node, c), static_cast<std::int32_t>(token_of_node_.size()));
      if (inserted) token_of_node_.push_back(-1);
      node = it->second;
    }
    token_of_node_[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(i);
  }
}

std::size_t AddedTokenMatcher::LongestAt(std::string_view text, std::size_t* token) const {
  std::int32_t node = kRoot;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto it = edges_.find(Edge(node, text[i]));
    if (it == edges_.end()) break;
    node = it->second;
    if (const std::int32_t found = token_of_node_[static_cast<std::size_t>(node)]; found >= 0) {
      longest = i + 1;
      *token = static_cast<std::size_t>(found);
    }
  }
  return longest;
}

void AddedTokenMatcher::Split(std::string_view text, std::vector<Segment>* segments) const {
  std::size_t done = 0;  // text before this is in segments
  std::size_t at = 0;
  while (at < text.size() && !tokens_.empty()) {
    std::size_t index = 0;
    const std::size_t length = LongestAt(text.substr(at), &index);
    if (length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[index];
    std::size_t begin = at;
    std::size_t end = at + length;
    at = end;
    if (token.single_word && (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end))))
      continue;
    if (token.lstrip) begin -= SpacesAtEnd(text.substr(done, begin - done));
    if (token.rstrip) end += SpacesAtStart(text.substr(end));
    if (begin > done) segments->push_back({-1, text.substr(done, begin - done)});
    segments->push_back({token.id, text.substr(begin, end - begin)});
    done = at = end;
  }
  if (done < text.size()) segments->push_back({-1, text.substr(done)});
}

}  // namespace scd
