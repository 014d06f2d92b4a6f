// Tokens that are found in the text itself before anything else looks at it: special tokens and other added
// ones.
#ifndef SCD_COMMON_MODEL_ADDED_TOKENS_H_
#define SCD_COMMON_MODEL_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace scd {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;  // not empty
  bool special = false;
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no word character touches it
  bool normalized = false;   // looked for in the normalised text, not in the text as it came
};

// A stretch of the text: an added token, or text between them.
struct Segment {
  std::int32_t id;  // < 0: text
  std::string_view text;
};

// Finds a set of tokens, leftmost first and the longest of those. Immutable and thread-safe.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() : AddedTokenMatcher(std::vector<AddedToken>()) {}
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Appends the segments of text; none is empty text.
  void Split(std::string_view text, std::vector<Segment>* segments) const;
  bool empty() const { return tokens_.empty(); }

 private:
  static constexpr std::int32_t kRoot = 0;

  // Length in bytes of the longest token at the start of text, and its place in tokens_; 0 for none.
  std::size_t LongestAt(std::string_view text, std::size_t* token) const;

  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<std::uint64_t, std::int32_t> edges_;  // node << 8 | byte -> node
  std::vector<std::int32_t> token_of_node_;                 // < 0: no token ends here
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_ADDED_TOKENS_H_
