#include "common/model/spm_pieces.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/model/hf_pipeline.h"
#include "common/model/string_views.h"
#include "kernels/status_macros.h"

namespace scd {

absl::Status AddPieces(absl::Span<const SpmPiece> pieces, Vocabulary* vocabulary, AddedTokenMap* added) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const SpmPiece& piece = pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    SCD_RETURN_IF_ERROR(vocabulary->Add(id, piece.text));
    if (piece.type == PieceType::kControl || piece.type == PieceType::kUnknown) {
      AddedToken token;
      token.id = id;
      token.content = std::string(piece.text);
      token.special = true;
      SCD_RETURN_IF_ERROR(MergeAddedToken(token, vocabulary, added));
    } else if (piece.type == PieceType::kByte) {
      const int byte = FallbackByte(piece.text);
      if (byte < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the byte piece ", id, " is \"", absl::CHexEscape(ToAbsl(piece.text)), "\", not \"<0xXX>\""));
      }
      vocabulary->SetBytes(id, std::string(1, static_cast<char>(byte)));
    } else {
      vocabulary->SetBytes(id, absl::StrReplaceAll(ToAbsl(piece.text), {{ToAbsl(kSpmSpace), " "}}));
    }
  }
  return absl::OkStatus();
}

Digest SpmRulesDigest(absl::Span<const SpmPiece> pieces, bool is_bpe, bool add_dummy_prefix) {
  DigestBuilder digest("scd.tokenizer.spm.v1");
  digest.AddInt(is_bpe).AddInt(add_dummy_prefix).AddInt(static_cast<std::int64_t>(pieces.size()));
  for (const SpmPiece& piece : pieces) {
    digest.AddInt(static_cast<std::int64_t>(piece.type));
    if (piece.type == PieceType::kNormal) digest.AddDouble(piece.score);
  }
  return digest.Finish();
}

}  // namespace scd
