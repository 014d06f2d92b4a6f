// tokenizer.model: SentencePiece vocabularies (Llama 2, Mistral), run by the sentencepiece library.
#ifndef SCD_COMMON_MODEL_SPM_TOKENIZER_H_
#define SCD_COMMON_MODEL_SPM_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/tokenizer.h"
#include "common/model/tokenizer_config.h"

namespace scd {

// Prompts begin with the model's <s> unless config says otherwise. INVALID_ARGUMENT or UNIMPLEMENTED naming
// the file and what is wrong.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSpmTokenizer(const std::string& path,
                                                            const TokenizerConfig& config);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_SPM_TOKENIZER_H_
