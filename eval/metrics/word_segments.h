// Words of text that is not Chinese, as CMRC 2018's script takes them from NLTK's word_tokenize: sentences
// first, then each one cut by the Penn Treebank's conventions ("can't" is "ca n't", a sentence's last period
// stands alone, quotation marks become `` and '').
//
// Sentence ends follow Kiss and Strunk's Punkt method without its trained tables: a period at the end of a
// word ends a sentence unless the word is letters with periods between them, a number or a known
// abbreviation. Where NLTK's English tables say otherwise ("a.v. club"), the two differ in whether that one
// period is a word by itself.
#ifndef SCD_EVAL_METRICS_WORD_SEGMENTS_H_
#define SCD_EVAL_METRICS_WORD_SEGMENTS_H_

#include <string>
#include <string_view>
#include <vector>

namespace scd {

// `text` is in lower case and free of what CMRC's script takes out first: hyphens, colons, asterisks, accents
// graves, curly closing quotation marks.
std::vector<std::u32string> WordSegments(std::u32string_view text);

}  // namespace scd

#endif  // SCD_EVAL_METRICS_WORD_SEGMENTS_H_
