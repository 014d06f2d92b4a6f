#include "eval/metrics/word_segments.h"

#include <algorithm>
#include <iterator>

#include "eval/metrics/python_text.h"

namespace scd {
namespace {

using Text = std::u32string;
using View = std::u32string_view;

bool IsOneOf(char32_t c, View set) {
  return set.find(c) != View::npos;
}

// Puts spaces around every character of the set.
Text PadEach(View text, View set) {
  Text out;
  for (const char32_t c : text) {
    if (IsOneOf(c, set)) {
      out.append({U' ', c, U' '});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

Text ReplaceAll(View text, View from, View to) {
  Text out;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(from), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    out += to;
    text.remove_prefix(from.size());
  }
  return out;
}

bool IsWordAt(View text, std::size_t i) {
  return i < text.size() && IsPythonWord(text[i]);
}

// Opening quotation marks: a straight one at the start, after a space or after an opening bracket.
Text OpeningQuotes(View text) {
  const Text padded = PadEach(text, U"«‘„");
  Text out;
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const bool opens = i == 0 || IsOneOf(padded[i - 1], U" ([{<") || (i == 1 && padded[0] == U'"');
    if (padded[i] == U'"' && opens) {
      out += U" `` ";
    } else if (opens && i > 0 && View(padded).substr(i, 2) == U"''") {
      out += U" `` ";
      ++i;
    } else {
      out.push_back(padded[i]);
    }
  }
  return out;
}

// A single quotation mark before a word of one letter stands apart, unless it may be a contraction.
Text QuotedLetters(View text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] == U'\'' && IsWordAt(text, i + 1) && !IsWordAt(text, i + 2) &&
        !IsOneOf(text[i + 1], U"mtsdn")) {
      out.push_back(U' ');
    }
  }
  return out;
}

// The last period, if only closing marks follow, is a word.
Text FinalPeriod(View text) {
  std::size_t end = text.size();
  while (end > 0 && (IsPythonSpace(text[end - 1]) || IsOneOf(text[end - 1], U"])}>\"'»"))) --end;
  if (end < 2 || text[end - 1] != U'.' || text[end - 2] == U'.') return Text(text);
  const View closing = text.substr(end);
  // Nothing but white space may stand between the closing marks and the end.
  const auto marks = static_cast<std::size_t>(
      std::find_if_not(closing.begin(), closing.end(), [](char32_t c) { return IsOneOf(c, U"])}>\"'» "); }) -
      closing.begin());
  if (!PythonStrip(closing.substr(marks)).empty()) return Text(text);
  Text out(text.substr(0, end - 1));
  out += U" . ";
  out += closing.substr(0, marks);
  out.push_back(U' ');
  return out;
}

// A comma is a word unless a digit follows; of two in a row the second is looked at only if another follows
// it.
Text Commas(View text) {
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != U',' || (i + 1 < text.size() && IsPythonDigit(text[i + 1]))) {
      out.push_back(text[i]);
      continue;
    }
    out += U" , ";
    if (++i < text.size()) out.push_back(text[i]);
  }
  if (!out.empty() && out.back() == U',') out.replace(out.size() - 1, 1, U" , ");
  return out;
}

Text Ellipses(View text) {
  Text out;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find_first_not_of(U'.'), text.size());
    if (length >= 2) out.push_back(U' ');
    out += text.substr(0, std::max<std::size_t>(length, 1));
    if (length >= 2) out.push_back(U' ');
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

// Cuts `ending` off a word before a space: "it's " becomes "it 's ". Nothing that follows a quotation mark is
// cut.
Text CutEndings(View text, const std::vector<View>& endings) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    out.push_back(text[i]);
    if (IsOneOf(text[i++], U"' ")) continue;
    for (const View ending : endings) {
      if (text.substr(i, ending.size()) != ending || text.substr(i + ending.size(), 1) != U" ") continue;
      out.push_back(U' ');
      out += ending;
      out.push_back(U' ');
      i += ending.size() + 1;
      break;
    }
  }
  return out;
}

// Cuts a word in two where it is exactly first + second.
Text CutWord(View text, View first, View second) {
  const Text word = Text(first).append(second);
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = i + word.size();
    const bool starts = i == 0 || !IsPythonWord(text[i - 1]);
    if (starts && text.substr(i, word.size()) == word && !IsWordAt(text, end)) {
      out.push_back(U' ');
      out += first;
      out.push_back(U' ');
      out += second;
      out.push_back(U' ');
      i = end;
    } else {
      out.push_back(text[i++]);
    }
  }
  return out;
}

Text OneSpaceEach(View text) {
  Text out;
  for (const char32_t c : text) {
    if (!IsPythonSpace(c)) {
      out.push_back(c);
    } else if (out.empty() || out.back() != U' ') {
      out.push_back(U' ');
    }
  }
  return out;
}

std::vector<Text> SentenceWords(View sentence) {
  Text text = QuotedLetters(OpeningQuotes(sentence));
  text = Ellipses(Commas(FinalPeriod(text)));
  text = PadEach(text, U";@#$%&?!");
  text = CutEndings(text, {U"'"});
  text = PadEach(text, U"][(){}<>");
  text = Text(U" ").append(PadEach(text, U"»")).append(U" ");
  text = ReplaceAll(text, U"''", U" '' ");
  text = OneSpaceEach(ReplaceAll(text, U"\"", U" '' "));
  text = CutEndings(text, {U"'s", U"'m", U"'d", U"'"});
  text = CutEndings(text, {U"'ll", U"'re", U"'ve", U"n't"});
  constexpr std::pair<View, View> kFused[] = {{U"can", U"not"}, {U"d", U"'ye"},  {U"gim", U"me"},
                                              {U"gon", U"na"},  {U"got", U"ta"}, {U"lem", U"me"},
                                              {U"more", U"'n"}, {U"wan", U"na"}};
  for (const auto& [first, second] : kFused) text = CutWord(text, first, second);
  text = ReplaceAll(text, U" 'tis ", U" 't is ");
  text = ReplaceAll(text, U" 'twas ", U" 't was ");
  return PythonSplit(text);
}

bool IsAbbreviation(View word) {
  constexpr View kKnown[] = {U"adm",  U"aug", U"ave",  U"bros", U"capt", U"co",  U"col", U"corp", U"dec",
                             U"dr",   U"feb", U"fri",  U"ft",   U"gen",  U"inc", U"jan", U"jr",   U"lt",
                             U"ltd",  U"maj", U"mr",   U"mrs",  U"ms",   U"nov", U"oct", U"prof", U"rep",
                             U"reps", U"sen", U"sens", U"sep",  U"sept", U"sr",  U"st",  U"ste",  U"tues",
                             U"u.s",  U"u.k", U"u.n",  U"ph.d", U"a.m",  U"p.m", U"vs",  U"wed"};
  return std::find(std::begin(kKnown), std::end(kKnown), word) != std::end(kKnown);
}

bool IsNumber(View word) {
  return std::any_of(word.begin(), word.end(), IsPythonDigit) &&
         std::all_of(word.begin(), word.end(),
                     [](char32_t c) { return IsPythonDigit(c) || IsOneOf(c, U".,"); });
}

// "u.s", "d.c": letters with periods between them.
bool IsSpelledOut(View word) {
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool letter = IsPythonWord(word[i]) && !IsPythonDigit(word[i]) && word[i] != U'_';
    if (i % 2 == 0 ? !letter : word[i] != U'.') return false;
  }
  return word.size() % 2 == 1;
}

// Whether the period after `word` ends a sentence that goes on with the character `next`.
bool EndsSentence(View word, char32_t next) {
  if (word.empty() || word.back() == U'.' || IsSpelledOut(word) || IsAbbreviation(word)) return false;
  return !(IsNumber(word) && IsPythonWord(next) && !IsPythonDigit(next));
}

}  // namespace

std::vector<Text> WordSegments(View text) {
  std::vector<Text> words;
  const auto take = [&](View sentence) {
    for (Text& word : SentenceWords(PythonStrip(sentence))) words.push_back(std::move(word));
  };
  std::size_t sentence = 0;
  std::size_t word = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsPythonSpace(text[i]) || (word == i && IsOneOf(text[i], U"\"'([{<"))) word = i + 1;
    if (!IsOneOf(text[i], U".?!")) continue;
    // Closing marks before a space belong to the sentence; other marks that follow begin the next one.
    const std::size_t closed = std::min(text.find_first_not_of(U")]}\"'", i + 1), text.size());
    const bool spaced = closed == text.size() || IsPythonSpace(text[closed]);
    if (!spaced && !IsOneOf(text[i + 1], U")]}\"';@?!({[")) continue;
    const std::size_t end = spaced ? closed : i + 1;
    std::size_t next = end;
    while (next < text.size() && IsPythonSpace(text[next])) ++next;
    if (next == text.size()) break;
    if (text[i] == U'.' && !EndsSentence(text.substr(word, i - word), text[next])) continue;
    take(text.substr(sentence, end - sentence));
    sentence = next;
  }
  take(text.substr(sentence));
  return words;
}

}  // namespace scd
