// The parts of tokenizer.json around the model: normalizer, pre_tokenizer, post_processor and decoder. What
// is not understood is UNIMPLEMENTED, what is malformed INVALID_ARGUMENT, both with the path of the field.
#ifndef SCD_COMMON_MODEL_HF_PIPELINE_H_
#define SCD_COMMON_MODEL_HF_PIPELINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/json.h"
#include "common/model/pre_tokenizer.h"

namespace scd {

// `file` is the whole tokenizer.json.
absl::StatusOr<Normalizer> ParseNormalizer(const JsonObject& file);

struct ParsedPreTokenizer {
  PreTokenizer steps;
  bool byte_level = false;  // pieces go on in GPT-2's spelling of bytes
};
absl::StatusOr<ParsedPreTokenizer> ParsePreTokenizer(const JsonObject& file);

// The tokens that the post-processor puts around a prompt.
struct DefaultTokens {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
};
absl::StatusOr<DefaultTokens> ParsePostProcessor(const JsonObject& file);

// What a token's text becomes when it is decoded.
struct TokenDecoder {
  bool byte_level = false;                                   // GPT-2's spelling
  bool byte_fallback = false;                                // <0xXX> is a byte
  std::vector<std::pair<std::string, std::string>> replace;  // in order
  bool strips_leading_space = false;                         // one space at the start of the whole text goes

  std::string Bytes(std::string_view token_text) const;
};
// A file without a decoder is decoded by the inverse of its pre-tokenizer.
absl::StatusOr<TokenDecoder> ParseDecoder(const JsonObject& file, bool byte_level);

// The byte that "<0xXX>" stands for, or -1.
int FallbackByte(std::string_view token_text);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_HF_PIPELINE_H_
