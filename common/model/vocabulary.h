// The table of a tokenizer's ids: each token's own spelling, the bytes that it adds to the text, and whether
// it is special.
#ifndef SCD_COMMON_MODEL_VOCABULARY_H_
#define SCD_COMMON_MODEL_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace scd {

// More than any known vocabulary has; bounds what a file can make us allocate.
inline constexpr std::int32_t kMaxTokenId = (1 << 20) - 1;
inline constexpr std::size_t kMaxTokenBytes = 1024;

struct Token {
  std::string text;   // the vocabulary's spelling, valid UTF-8
  std::string bytes;  // what the decoder makes of it
  bool special = false;
  bool present = false;  // false for ids that have no token
};

class Vocabulary {
 public:
  // INVALID_ARGUMENT naming the id or text for an id out of range or used twice, a text used twice, or a text
  // that is empty, too long or not UTF-8. `bytes` is the text until SetBytes.
  absl::Status Add(std::int32_t id, std::string_view text);

  void SetSpecial(std::int32_t id) { tokens_[static_cast<std::size_t>(id)].special = true; }
  void SetBytes(std::int32_t id, std::string bytes) {
    tokens_[static_cast<std::size_t>(id)].bytes = std::move(bytes);
  }
  // Ids up to size - 1 exist, with or without a token.
  void Reserve(std::int32_t size);

  // One more than the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  // The token of an id; null outside the table and for ids without a token.
  const Token* Find(std::int32_t id) const;
  std::optional<std::int32_t> Id(std::string_view text) const;

 private:
  std::vector<Token> tokens_;
  absl::flat_hash_map<std::string, std::int32_t> ids_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_VOCABULARY_H_
