// A Python regular expression of an adapter's configuration, matched against whole module names. Backtracking
// is bounded, and so is the pattern's length.
#ifndef SCD_COMMON_MODEL_NAME_PATTERN_H_
#define SCD_COMMON_MODEL_NAME_PATTERN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scd {

class NamePattern {
 public:
  // INVALID_ARGUMENT with the pattern and what is wrong with it.
  static absl::StatusOr<NamePattern> Create(const std::string& pattern);

  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;
  ~NamePattern();

  // Whether the pattern matches all of `name`. INVALID_ARGUMENT where that needs too much backtracking.
  absl::StatusOr<bool> Matches(absl::string_view name) const;

 private:
  struct Compiled;
  explicit NamePattern(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_NAME_PATTERN_H_
