// GPT-2's spelling of bytes: byte-level vocabularies write each byte as one printable character, so that a
// token's text is valid UTF-8 whatever its bytes ("Ġ" is a space).
#ifndef SCD_COMMON_MODEL_BPE_ALPHABET_H_
#define SCD_COMMON_MODEL_BPE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace scd {

// The character that stands for a byte.
char32_t ByteLevelCharacter(std::uint8_t byte);

// The bytes that a token's text (valid UTF-8) stands for; absent where one of its characters stands for none.
std::optional<std::string> ByteLevelDecode(std::string_view token_text);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_BPE_ALPHABET_H_
