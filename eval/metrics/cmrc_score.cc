#include "eval/metrics/cmrc_score.h"

#include <algorithm>
#include <iterator>

#include "eval/metrics/python_text.h"
#include "eval/metrics/squad_score.h"
#include "eval/metrics/word_segments.h"

namespace scd {
namespace {

// The script also lists a pair of ellipses, which no single character equals: an ellipsis stays.
constexpr std::u32string_view kIgnored = U"-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』";

bool IsIgnored(char32_t c) {
  return kIgnored.find(c) != std::u32string_view::npos;
}

bool IsChinese(char32_t c) {
  return c >= 0x4E00 && c <= 0x9FA5;
}

std::u32string Kept(std::string_view text) {
  const std::u32string lower = PythonLower(ToCodePoints(text));
  const std::u32string_view stripped = PythonStrip(lower);
  std::u32string kept;
  std::copy_if(stripped.begin(), stripped.end(), std::back_inserter(kept),
               [](char32_t c) { return !IsIgnored(c); });
  return kept;
}

std::vector<std::u32string> Segments(std::u32string_view kept) {
  std::vector<std::u32string> segments;
  while (!kept.empty()) {
    const auto length =
        static_cast<std::size_t>(std::find_if(kept.begin(), kept.end(), IsChinese) - kept.begin());
    if (length == 0) {
      segments.emplace_back(kept.substr(0, 1));
      kept.remove_prefix(1);
      continue;
    }
    for (std::u32string& word : WordSegments(kept.substr(0, length))) segments.push_back(std::move(word));
    kept.remove_prefix(length);
  }
  return segments;
}

// Length of the longest contiguous run that both have.
std::size_t LongestCommonRun(const std::vector<std::u32string>& a, const std::vector<std::u32string>& b) {
  std::vector<std::size_t> ending_before(b.size() + 1), ending_here(b.size() + 1);
  std::size_t longest = 0;
  for (const std::u32string& segment : a) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      ending_here[j + 1] = segment == b[j] ? ending_before[j] + 1 : 0;
      longest = std::max(longest, ending_here[j + 1]);
    }
    ending_before.swap(ending_here);
  }
  return longest;
}

}  // namespace

std::vector<std::u32string> CmrcSegments(std::string_view text) {
  return Segments(Kept(text));
}

AnswerScore CmrcScore(std::string_view prediction, const std::vector<std::string>& references) {
  const std::u32string predicted = Kept(prediction);
  const std::vector<std::u32string> predicted_segments = Segments(predicted);
  AnswerScore best;
  for (const std::string& reference : references) {
    const std::u32string expected = Kept(reference);
    if (predicted == expected) best.exact = 1;
    const std::vector<std::u32string> segments = Segments(expected);
    best.f1 = std::max(best.f1, WordF1(LongestCommonRun(segments, predicted_segments),
                                       predicted_segments.size(), segments.size()));
  }
  return best;
}

}  // namespace scd
