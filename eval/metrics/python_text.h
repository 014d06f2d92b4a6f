// Text as the published scoring scripts see it: they are Python programs, and their scores follow from what
// Python's str methods and regular expressions do with Unicode. Text here is code points.
#ifndef SCD_EVAL_METRICS_PYTHON_TEXT_H_
#define SCD_EVAL_METRICS_PYTHON_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace scd {

// What is not UTF-8 becomes U+FFFD.
std::u32string ToCodePoints(std::string_view utf8);
std::string ToUtf8(std::u32string_view text);

// str.lower(): full mappings, so U+0130 becomes two code points and a capital sigma at the end of a word the
// final one.
std::u32string PythonLower(std::u32string_view text);

bool IsPythonSpace(char32_t c);  // str.isspace(), \s
bool IsPythonWord(char32_t c);  // \w: letters, numbers of any kind and the underscore, but no combining marks
bool IsPythonDigit(char32_t c);  // \d

std::u32string_view PythonStrip(std::u32string_view text);          // str.strip()
std::vector<std::u32string> PythonSplit(std::u32string_view text);  // str.split()

}  // namespace scd

#endif  // SCD_EVAL_METRICS_PYTHON_TEXT_H_
