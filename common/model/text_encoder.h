// What turns plain text into ids: the part in which kinds of tokenizers differ. Special and added tokens,
// default tokens and decoding are the same for all (assembled_tokenizer.h).
#ifndef SCD_COMMON_MODEL_TEXT_ENCODER_H_
#define SCD_COMMON_MODEL_TEXT_ENCODER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/digest.h"

namespace scd {

// Where a stretch of text stands in the prompt.
struct TextPosition {
  bool at_start = false;       // the prompt begins with it
  bool after_special = false;  // a special token stands before it
};

// Immutable and thread-safe. Texts are valid UTF-8.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // The form of text in which added tokens marked `normalized` are looked for, and which Encode is given.
  virtual absl::StatusOr<std::string> Normalize(std::string_view text) const { return std::string(text); }
  // Appends the ids of normalised text.
  virtual absl::Status Encode(std::string_view text, TextPosition position,
                              std::vector<std::int32_t>* ids) const = 0;
  // Feeds the rules by which text becomes ids.
  virtual void AddTo(DigestBuilder* digest) const = 0;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_TEXT_ENCODER_H_
