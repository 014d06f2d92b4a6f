// The vocabularies inside GGUF files: "gpt2" (byte-level BPE with a named pre-tokenizer) and "llama"
// (SentencePiece pieces with scores).
#ifndef SCD_COMMON_MODEL_GGUF_TOKENIZER_H_
#define SCD_COMMON_MODEL_GGUF_TOKENIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/model/gguf_file.h"
#include "common/model/tokenizer.h"

namespace scd {

// Keeps nothing of `file`. INVALID_ARGUMENT naming file, key and what is wrong; UNIMPLEMENTED naming a
// vocabulary or pre-tokenizer that is not known.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGgufTokenizer(const GgufFile& file);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_GGUF_TOKENIZER_H_
