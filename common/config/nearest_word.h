// What somebody who wrote a word probably meant.
#ifndef SCD_COMMON_CONFIG_NEAREST_WORD_H_
#define SCD_COMMON_CONFIG_NEAREST_WORD_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scd {

// The known word with the fewest edits from `word`, the first of equals; absent where all are too far away.
std::optional<std::string> NearestWord(std::string_view word, const std::vector<std::string>& known);

}  // namespace scd

#endif  // SCD_COMMON_CONFIG_NEAREST_WORD_H_
