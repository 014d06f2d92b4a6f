#include "common/model/detokenizer.h"

#include <string_view>

#include "common/model/unicode.h"

namespace scd {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool render_special)
    : tokenizer_(tokenizer), render_special_(render_special) {}

std::string Detokenizer::Add(std::int32_t id) {
  std::string bytes = tokenizer_.TokenBytes(id, render_special_);
  if (bytes.empty()) return "";
  if (at_start_ && tokenizer_.strips_leading_space() && bytes[0] == ' ') bytes.erase(0, 1);
  at_start_ = false;
  pending_ += bytes;
  std::string text;
  const std::size_t unfinished = AppendLossyUtf8(pending_, /*final=*/false, &text);
  pending_.erase(0, pending_.size() - unfinished);
  return text;
}

std::string Detokenizer::Finish() {
  std::string text;
  AppendLossyUtf8(pending_, /*final=*/true, &text);
  pending_.clear();
  return text;
}

}  // namespace scd
