#include "common/model/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

namespace scd {
namespace {

enum class Piece { kCharacter, kInvalid, kUnfinished };
struct Scan {
  Piece piece;
  std::size_t length;  // bytes of the character, or of the maximal part that is not one
};

// Looks at the start of non-empty bytes.
Scan ScanCharacter(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {Piece::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Piece::kInvalid, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  std::uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Piece::kUnfinished, i};
    if (byte(i) < low || byte(i) > high) return {Piece::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Piece::kCharacter, length};
}

// Offset of the first byte that is not UTF-8, or text.size().
std::size_t FirstInvalidByte(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Scan scan = ScanCharacter(text.substr(at));
    if (scan.piece != Piece::kCharacter) return at;
    at += scan.length;
  }
  return at;
}

utf8proc_category_t Category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  return FirstInvalidByte(text) == text.size();
}

absl::Status CheckUtf8(std::string_view text) {
  const std::size_t at = FirstInvalidByte(text);
  if (at == text.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the text is not UTF-8: byte 0x",
                   absl::Hex(static_cast<std::uint8_t>(text[at]), absl::kZeroPad2), " at offset ", at));
}

std::size_t Utf8Length(char lead) {
  const auto byte = static_cast<std::uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

char32_t DecodeUtf8(std::string_view text) {
  const auto low = [&](std::size_t i) { return static_cast<char32_t>(text[i]) & 0x3F; };
  const auto lead = static_cast<std::uint8_t>(text[0]);
  switch (Utf8Length(text[0])) {
    case 1:
      return lead;
    case 2:
      return (char32_t{lead} & 0x1F) << 6 | low(1);
    case 3:
      return (char32_t{lead} & 0x0F) << 12 | low(1) << 6 | low(2);
    default:
      return (char32_t{lead} & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
  }
}

void AppendUtf8(char32_t character, std::string* out) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  out->append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

std::size_t AppendLossyUtf8(std::string_view bytes, bool final, std::string* out) {
  while (!bytes.empty()) {
    const Scan scan = ScanCharacter(bytes);
    if (scan.piece == Piece::kUnfinished && !final) return bytes.size();
    out->append(scan.piece == Piece::kCharacter ? bytes.substr(0, scan.length) : kReplacementCharacter);
    bytes.remove_prefix(scan.length);
  }
  return 0;
}

bool IsNumeric(char32_t character) {
  const auto category = Category(character);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool IsWhitespace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsWordCharacter(char32_t character) {
  switch (Category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// utf8proc's own decomposition sorts combining marks by bubble sort, which a long run of marks makes
// quadratic; here the runs are sorted by std::stable_sort, and utf8proc decomposes single characters and
// composes.
absl::StatusOr<std::string> ToNfc(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<std::uint8_t>(c) < 0x80; })) {
    return std::string(text);
  }
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    std::array<utf8proc_int32_t, 8> parts;  // the longest canonical decomposition has 4 characters
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(DecodeUtf8(text)), parts.data(),
                                               parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
      return absl::InternalError("canonical decomposition failed");
    }
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
    text.remove_prefix(Utf8Length(text[0]));
  }
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto it = characters.begin(); it != characters.end();) {
    if (mark_class(*it) == 0) {
      ++it;
      continue;
    }
    const auto end = std::find_if(it, characters.end(), [&](auto c) { return mark_class(c) == 0; });
    std::stable_sort(it, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    it = end;
  }
  const auto composed =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (composed < 0) return absl::InternalError("canonical composition failed");
  std::string out;
  for (utf8proc_ssize_t i = 0; i < composed; ++i) {
    AppendUtf8(static_cast<char32_t>(characters[static_cast<std::size_t>(i)]), &out);
  }
  return out;
}

}  // namespace scd
