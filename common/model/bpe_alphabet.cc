#include "common/model/bpe_alphabet.h"

#include <array>

#include "common/model/unicode.h"

namespace scd {
namespace {

constexpr char32_t kFirstMoved = 0x100;
constexpr int kMoved = 68;  // bytes without a printable Latin-1 character, numbered from U+0100 in byte order

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> kCharacterOfByte = [] {
  std::array<char32_t, 256> table{};
  char32_t next = kFirstMoved;
  for (int byte = 0; byte < 256; ++byte) {
    table[static_cast<std::size_t>(byte)] = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return table;
}();

constexpr std::array<std::uint8_t, kMoved> kMovedBytes = [] {
  std::array<std::uint8_t, kMoved> table{};
  std::size_t next = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (!StandsForItself(byte)) table[next++] = static_cast<std::uint8_t>(byte);
  }
  return table;
}();

}  // namespace

char32_t ByteLevelCharacter(std::uint8_t byte) {
  return kCharacterOfByte[byte];
}

std::optional<std::string> ByteLevelDecode(std::string_view token_text) {
  std::string bytes;
  while (!token_text.empty()) {
    const char32_t character = DecodeUtf8(token_text);
    if (character < kFirstMoved && StandsForItself(static_cast<int>(character))) {
      bytes.push_back(static_cast<char>(character));
    } else if (character >= kFirstMoved && character < kFirstMoved + kMoved) {
      bytes.push_back(static_cast<char>(kMovedBytes[character - kFirstMoved]));
    } else {
      return std::nullopt;
    }
    token_text.remove_prefix(Utf8Length(token_text[0]));
  }
  return bytes;
}

}  // namespace scd
