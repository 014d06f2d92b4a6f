// Turns a stream of tokens into a stream of text that never holds half a UTF-8 character.
#ifndef SCD_COMMON_MODEL_DETOKENIZER_H_
#define SCD_COMMON_MODEL_DETOKENIZER_H_

#include <cstdint>
#include <string>

#include "common/model/tokenizer.h"

namespace scd {

class Detokenizer {
 public:
  // `tokenizer` outlives this.
  Detokenizer(const Tokenizer& tokenizer, bool render_special);

  // The text that became certain with this token; may be empty. Bytes that can never become UTF-8 are U+FFFD.
  std::string Add(std::int32_t id);
  // What is left at the end: U+FFFD for an unfinished character, else empty.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool render_special_;
  std::string pending_;
  bool at_start_ = true;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_DETOKENIZER_H_
