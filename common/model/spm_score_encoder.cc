#include "common/model/spm_score_encoder.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/model/hf_pipeline.h"
#include "common/model/spm_pieces.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"
#include "kernels/status_macros.h"

namespace scd {

absl::StatusOr<std::unique_ptr<SpmScoreEncoder>> SpmScoreEncoder::Create(absl::Span<const SpmPiece> pieces,
                                                                         bool add_space_prefix) {
  auto encoder = absl::WrapUnique(new SpmScoreEncoder);
  encoder->add_space_prefix_ = add_space_prefix;
  encoder->byte_ids_.fill(-1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const SpmPiece& piece = pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    switch (piece.type) {
      case PieceType::kNormal:
      case PieceType::kUnused:
        encoder->pieces_.emplace(std::string(piece.text),
                                 Piece{id, piece.score, piece.type == PieceType::kUnused});
        encoder->longest_piece_bytes_ = std::max(encoder->longest_piece_bytes_, piece.text.size());
        break;
      case PieceType::kByte:
        if (const int byte = FallbackByte(piece.text); byte >= 0) {
          encoder->byte_ids_[static_cast<std::size_t>(byte)] = id;
        }
        break;
      case PieceType::kUnknown:
        encoder->unknown_id_ = id;
        break;
      case PieceType::kControl:
      case PieceType::kUserDefined:
        break;
    }
  }
  encoder->rules_ = SpmRulesDigest(pieces, /*is_bpe=*/true, add_space_prefix);
  return encoder;
}

absl::Status SpmScoreEncoder::Encode(std::string_view text, TextPosition position,
                                     std::vector<std::int32_t>* ids) const {
  std::string spelled = absl::StrReplaceAll(ToAbsl(text), {{" ", ToAbsl(kSpmSpace)}});
  if (add_space_prefix_ && (position.at_start || position.after_special)) spelled.insert(0, kSpmSpace);

  std::vector<Symbol> symbols;
  symbols.reserve(spelled.size());
  for (std::uint32_t i = 0; i < spelled.size();) {
    const auto length = static_cast<std::uint32_t>(Utf8Length(spelled[i]));
    symbols.push_back({0, i, i + length});
    i += length;
  }
  SplitTable splits;
  const std::string_view view = spelled;
  MergeSymbols(&symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<MergeRule> {
    const std::size_t size = right.end - left.begin;
    if (size > longest_piece_bytes_) return std::nullopt;
    const std::string_view merged = view.substr(left.begin, size);
    const auto it = pieces_.find(ToAbsl(merged));
    if (it == pieces_.end()) return std::nullopt;
    if (it->second.unused) splits.insert_or_assign(ToAbsl(merged), left.end - left.begin);
    return MergeRule{-static_cast<double>(it->second.score), it->second.id};
  });
  for (const Symbol& symbol : symbols) {
    SCD_RETURN_IF_ERROR(Append(view.substr(symbol.begin, symbol.end - symbol.begin), splits, ids));
  }
  return absl::OkStatus();
}

absl::Status SpmScoreEncoder::Append(std::string_view symbol, const SplitTable& splits,
                                     std::vector<std::int32_t>* ids) const {
  const auto piece = pieces_.find(ToAbsl(symbol));
  if (piece != pieces_.end() && !piece->second.unused) {
    ids->push_back(piece->second.id);
    return absl::OkStatus();
  }
  if (piece != pieces_.end()) {
    if (const auto split = splits.find(ToAbsl(symbol)); split != splits.end()) {
      SCD_RETURN_IF_ERROR(Append(symbol.substr(0, split->second), splits, ids));
      return Append(symbol.substr(split->second), splits, ids);
    }
    ids->push_back(piece->second.id);
    return absl::OkStatus();
  }
  const bool bytes = std::all_of(symbol.begin(), symbol.end(),
                                 [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)] >= 0; });
  if (bytes) {
    for (const char c : symbol) ids->push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
    return absl::OkStatus();
  }
  if (!unknown_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the vocabulary has no token for \"", absl::CHexEscape(ToAbsl(symbol)), "\""));
  }
  ids->push_back(*unknown_id_);
  return absl::OkStatus();
}

}  // namespace scd
