// tokenizer.json, the format of Hugging Face's tokenizers library, for byte-pair encoders: byte-level ones
// (GPT-2, Llama 3, Qwen2, SmolLM2) and those made from SentencePiece (Llama 2, Mistral). What is not
// understood is refused by name.
#ifndef SCD_COMMON_MODEL_HF_TOKENIZER_H_
#define SCD_COMMON_MODEL_HF_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/tokenizer.h"
#include "common/model/tokenizer_config.h"

namespace scd {

// INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the field and what is wrong.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::string& path,
                                                             const TokenizerConfig& config);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_HF_TOKENIZER_H_
