// Cuts a large JSON document at its outermost list or object without parsing what is inside, so that one bad
// record does not cost the others and no more than one is in memory as values.
//
// Only strings and the nesting of brackets are looked at: whether a part is JSON is for whoever parses it.
// Linear in the text, without recursion.
#ifndef SCD_EVAL_DATASETS_JSON_SPLIT_H_
#define SCD_EVAL_DATASETS_JSON_SPLIT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace scd {

struct JsonPart {
  absl::string_view text;
  bool complete;  // false: the document ends inside it
};

// The elements of a list, one at a time.
class JsonListCutter {
 public:
  // INVALID_ARGUMENT unless text starts with '[', white space apart.
  static absl::StatusOr<JsonListCutter> Create(absl::string_view text);

  // Absent at the list's end, or where it cannot go on: see ending().
  std::optional<JsonPart> Next();

  // After the last element: OK if the list was closed, and nothing but white space follows it.
  const absl::Status& ending() const { return ending_; }

 private:
  explicit JsonListCutter(absl::string_view text) : text_(text), at_(1) {}
  std::optional<JsonPart> End(absl::string_view what);

  absl::string_view text_;  // from '['
  std::size_t at_;
  bool first_ = true;
  absl::Status ending_;
};

struct JsonMember {
  std::string key;
  JsonPart value;
};

struct JsonMembers {
  std::vector<JsonMember> members;
  absl::string_view rest;  // what follows the object
  bool closed = false;     // false: the document ends inside it
  const JsonPart* Find(absl::string_view key) const;
};

// The members of an object, at most kMaxJsonMembers. The last one may be incomplete, where the document ends
// inside it. INVALID_ARGUMENT for anything else than an object, keys that are no strings or stand twice, and
// what cannot be cut.
inline constexpr std::size_t kMaxJsonMembers = 256;
absl::StatusOr<JsonMembers> CutJsonObject(absl::string_view text);

}  // namespace scd

#endif  // SCD_EVAL_DATASETS_JSON_SPLIT_H_
