// What tokenizer.model and GGUF's "llama" vocabularies have in common: pieces with types and scores.
#ifndef SCD_COMMON_MODEL_SPM_PIECES_H_
#define SCD_COMMON_MODEL_SPM_PIECES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/io/digest.h"
#include "common/model/spm_model_file.h"
#include "common/model/tokenizer_config.h"
#include "common/model/vocabulary.h"

namespace scd {

inline constexpr std::string_view kSpmSpace = "\xE2\x96\x81";  // U+2581, how pieces spell a space

// Adds the pieces, numbered in order, with the bytes that they decode to; control and unknown pieces become
// special added tokens. INVALID_ARGUMENT naming the piece that is wrong.
absl::Status AddPieces(absl::Span<const SpmPiece> pieces, Vocabulary* vocabulary, AddedTokenMap* added);

// "scd.tokenizer.spm.v1": kind, dummy prefix, and type (and for normal pieces the score) of every piece.
Digest SpmRulesDigest(absl::Span<const SpmPiece> pieces, bool is_bpe, bool add_dummy_prefix);

}  // namespace scd

#endif  // SCD_COMMON_MODEL_SPM_PIECES_H_
