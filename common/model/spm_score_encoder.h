// SentencePiece's BPE by piece scores, for vocabularies that come without its model file (GGUF "llama").
#ifndef SCD_COMMON_MODEL_SPM_SCORE_ENCODER_H_
#define SCD_COMMON_MODEL_SPM_SCORE_ENCODER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model/spm_model_file.h"
#include "common/model/symbol_merger.h"
#include "common/model/text_encoder.h"

namespace scd {

class SpmScoreEncoder : public TextEncoder {
 public:
  // Pieces numbered in order. With add_space_prefix, text at the start and after special tokens begins with a
  // space.
  static absl::StatusOr<std::unique_ptr<SpmScoreEncoder>> Create(absl::Span<const SpmPiece> pieces,
                                                                 bool add_space_prefix);

  absl::Status Encode(std::string_view text, TextPosition position,
                      std::vector<std::int32_t>* ids) const override;
  void AddTo(DigestBuilder* digest) const override { digest->AddDigest(rules_); }

 private:
  struct Piece {
    std::int32_t id;
    float score;
    bool unused;  // taken apart again at the end
  };
  using SplitTable =
      absl::flat_hash_map<absl::string_view, std::size_t>;  // merged text -> bytes of its left half

  SpmScoreEncoder() = default;
  absl::Status Append(std::string_view symbol, const SplitTable& splits,
                      std::vector<std::int32_t>* ids) const;

  absl::flat_hash_map<std::string, Piece> pieces_;  // normal and unused ones
  std::size_t longest_piece_bytes_ = 0;
  std::array<std::int32_t, 256> byte_ids_{};  // < 0: the vocabulary lacks it
  std::optional<std::int32_t> unknown_id_;
  bool add_space_prefix_ = true;
  Digest rules_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_SPM_SCORE_ENCODER_H_
