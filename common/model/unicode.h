// The Unicode rules that tokenizers are built on. Every tokenizer sees text only after IsValidUtf8.
#ifndef SCD_COMMON_MODEL_UNICODE_H_
#define SCD_COMMON_MODEL_UNICODE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scd {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Whether all of text is UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsValidUtf8(std::string_view text);
// INVALID_ARGUMENT naming the first byte that is not UTF-8.
absl::Status CheckUtf8(std::string_view text);

// Bytes of the character that starts with `lead` in valid UTF-8.
std::size_t Utf8Length(char lead);
// The character at the start of valid UTF-8; its Utf8Length bytes are there.
char32_t DecodeUtf8(std::string_view text);
void AppendUtf8(char32_t character, std::string* out);

// Appends `bytes` with every maximal sequence that is not UTF-8 as one U+FFFD, the way Rust's and Python's
// lossy decoders do. Returns how many bytes at the end were left out because they may become a character with
// more bytes after them (0 to 3); with `final` these too are U+FFFD and 0 is returned.
std::size_t AppendLossyUtf8(std::string_view bytes, bool final, std::string* out);

bool IsNumeric(char32_t character);        // general categories Nd, Nl, No
bool IsWhitespace(char32_t character);     // White_Space
bool IsWordCharacter(char32_t character);  // letters, marks, decimal digits, connector punctuation

// Canonical composition (NFC) of valid UTF-8, in O(n log n) whatever the text.
absl::StatusOr<std::string> ToNfc(std::string_view text);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_UNICODE_H_
