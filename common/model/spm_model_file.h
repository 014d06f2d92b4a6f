// What tokenizer.model says beyond the sentencepiece library's interface: a reader of the few fields of its
// protocol buffer that decide how the tokenizer is put together. Also keeps from the library what it does not
// check itself.
#ifndef SCD_COMMON_MODEL_SPM_MODEL_FILE_H_
#define SCD_COMMON_MODEL_SPM_MODEL_FILE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scd {

// Numbered as in sentencepiece_model.proto and in GGUF's tokenizer.ggml.token_type.
enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SpmPiece {
  std::string_view text;
  float score = 0.0f;
  PieceType type = PieceType::kNormal;
};

struct SpmModelFile {
  std::vector<SpmPiece> pieces;  // views into the bytes that were parsed
  bool is_bpe = false;           // else a unigram model
  bool add_dummy_prefix = true;
};

// INVALID_ARGUMENT for bytes that are no such model; UNIMPLEMENTED for kinds of models and normalisation
// rules that no supported model family uses.
absl::StatusOr<SpmModelFile> ParseSpmModelFile(std::string_view bytes);

// Bytes that, appended to a model file, switch its dummy prefix off: a protocol buffer that follows another
// is merged into it.
std::string_view NoDummyPrefixSuffix();

}  // namespace scd

#endif  // SCD_COMMON_MODEL_SPM_MODEL_FILE_H_
