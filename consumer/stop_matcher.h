// Finds the first stop string in text that arrives piece by piece, and holds back only what may still become
// one.
//
// Where the text is cut into pieces does not change the outcome: the first stop string to be complete ends
// the text; of several that are complete with the same byte, the one that began first.
#ifndef SCD_CONSUMER_STOP_MATCHER_H_
#define SCD_CONSUMER_STOP_MATCHER_H_

#include <string>
#include <string_view>
#include <vector>

namespace scd {

class StopMatcher {
 public:
  struct Piece {
    std::string text;      // certain to be part of the answer
    bool stopped = false;  // a stop string followed; it and everything after it are dropped
  };

  // Stop strings that are empty are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // Text of whole UTF-8 characters. Not to be called after a piece that stopped.
  Piece Add(std::string_view text);

  // The end of the text: what was held back after all belongs to the answer.
  std::string Finish();

 private:
  // Where the first stop string to be complete begins, or npos.
  std::size_t FirstMatch() const;
  // Length of the longest end of held_ that begins a stop string.
  std::size_t LongestOpenEnd() const;

  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace scd

#endif  // SCD_CONSUMER_STOP_MATCHER_H_
