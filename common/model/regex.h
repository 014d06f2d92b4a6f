// Regular expressions of tokenizer files, which are written for Oniguruma, run by PCRE2 with the same
// meaning.
//
// Where the two differ the pattern is rewritten (\s is Unicode's White_Space, ^ and $ match at lines) or
// refused by name. Backtracking is bounded; a text that needs more of it is
// refused.
#ifndef SCD_COMMON_MODEL_REGEX_H_
#define SCD_COMMON_MODEL_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scd {

// A match as [begin, end) byte offsets.
struct MatchRange {
  std::size_t begin;
  std::size_t end;
};

// What matching needs besides the pattern; reused over many texts, by one thread at a time.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// Immutable and thread-safe.
class Regex {
 public:
  // INVALID_ARGUMENT with the pattern, the position and what is wrong; UNIMPLEMENTED for what would mean
  // another thing in PCRE2.
  static absl::StatusOr<std::unique_ptr<Regex>> Create(std::string_view pattern);

  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Every non-empty match in valid UTF-8, left to right, without overlap. RESOURCE_EXHAUSTED where the
  // pattern needs too much backtracking on this text.
  absl::Status FindAll(std::string_view text, RegexScratch* scratch, std::vector<MatchRange>* matches) const;

  const std::string& pattern() const { return pattern_; }

 private:
  struct Compiled;
  Regex(std::string pattern, std::unique_ptr<Compiled> compiled);

  std::string pattern_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_REGEX_H_
