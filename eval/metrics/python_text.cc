#include "eval/metrics/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "common/model/unicode.h"

namespace scd {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kCombiningDotAbove = 0x307;
constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Unicode's Case_Ignorable.
bool IsCaseIgnorable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  constexpr char32_t kMidWord[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                   0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  return std::binary_search(std::begin(kMidWord), std::end(kMidWord), c);
}

// Unicode's Cased, but for characters that are case-ignorable too.
bool IsCased(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      break;
  }
  return c == 0xAA || c == 0xBA || (c >= 0x2160 && c <= 0x217F) || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

// For every position, whether the nearest character before it that is not case-ignorable is cased.
std::vector<bool> CasedBefore(std::u32string_view text) {
  std::vector<bool> cased(text.size());
  bool last = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    cased[i] = last;
    if (!IsCaseIgnorable(text[i])) last = IsCased(text[i]);
  }
  return cased;
}

}  // namespace

std::u32string ToCodePoints(std::string_view utf8) {
  std::string valid;
  if (!IsValidUtf8(utf8)) {
    AppendLossyUtf8(utf8, /*final=*/true, &valid);
    utf8 = valid;
  }
  std::u32string text;
  text.reserve(utf8.size());
  while (!utf8.empty()) {
    text.push_back(DecodeUtf8(utf8));
    utf8.remove_prefix(Utf8Length(utf8[0]));
  }
  return text;
}

std::string ToUtf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) AppendUtf8(c, &out);
  return out;
}

std::u32string PythonLower(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  std::vector<bool> cased_before;
  std::vector<bool> cased_after;  // of the reversed text
  if (text.find(kCapitalSigma) != std::u32string_view::npos) {
    cased_before = CasedBefore(text);
    cased_after = CasedBefore(std::u32string(text.rbegin(), text.rend()));
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kCapitalIWithDot) {
      out.append({U'i', kCombiningDotAbove});
    } else if (text[i] == kCapitalSigma) {
      const bool final = cased_before[i] && !cased_after[text.size() - 1 - i];
      out.push_back(final ? kFinalSigma : kSmallSigma);
    } else {
      out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(text[i]))));
    }
  }
  return out;
}

bool IsPythonSpace(char32_t c) {
  return (c >= 0x1C && c <= 0x1F) || IsWhitespace(c);
}

bool IsPythonWord(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return c == U'_' || IsNumeric(c);
  }
}

bool IsPythonDigit(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_ND;
}

std::u32string_view PythonStrip(std::u32string_view text) {
  while (!text.empty() && IsPythonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsPythonSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::u32string> PythonSplit(std::u32string_view text) {
  std::vector<std::u32string> parts;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto* const start = text.data() + begin;
    const auto* const end = text.data() + text.size();
    const auto* const stop = std::find_if(start, end, IsPythonSpace);
    if (stop != start) parts.emplace_back(start, stop);
    begin += static_cast<std::size_t>(stop - start) + 1;
  }
  return parts;
}

}  // namespace scd
