#include "common/model/bpe_model.h"

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/model/bpe_alphabet.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

std::uint64_t PairKey(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Create(
    const Vocabulary& vocabulary, const std::vector<std::pair<std::string_view, std::string_view>>& merges,
    const BpeOptions& options) {
  auto model = absl::WrapUnique(new BpeModel);
  model->options_ = options;
  model->byte_ids_.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    if (options.byte_level) {
      AppendUtf8(ByteLevelCharacter(static_cast<std::uint8_t>(byte)), &spelling);
    } else if (options.byte_fallback) {
      spelling = absl::StrFormat("<0x%02X>", byte);
    }
    if (const auto id = vocabulary.Id(spelling)) model->byte_ids_[static_cast<std::size_t>(byte)] = *id;
  }
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const Token* token = vocabulary.Find(id);
    if (token == nullptr || token->special) continue;
    if (!options.byte_level) {
      model->whole_.emplace(token->text, id);
    } else if (options.ignore_merges) {
      if (auto bytes = ByteLevelDecode(token->text)) model->whole_.emplace(*std::move(bytes), id);
    }
  }
  if (!options.unknown_token.empty()) {
    model->unknown_id_ = vocabulary.Id(options.unknown_token);
    if (!model->unknown_id_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the unknown token \"", absl::CHexEscape(options.unknown_token), "\" is not in the vocabulary"));
    }
  }

  DigestBuilder digest("scd.tokenizer.merges.v1");
  model->merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto left_id = vocabulary.Id(left);
    const auto right_id = vocabulary.Id(right);
    const auto id = vocabulary.Id(absl::StrCat(ToAbsl(left), ToAbsl(right)));
    if (!left_id || !right_id || !id) {
      const std::string missing = !left_id    ? std::string(left)
                                  : !right_id ? std::string(right)
                                              : absl::StrCat(ToAbsl(left), ToAbsl(right));
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " (\"", absl::CHexEscape(ToAbsl(left)),
                                                     "\" and \"", absl::CHexEscape(ToAbsl(right)), "\"): \"",
                                                     absl::CHexEscape(missing),
                                                     "\" is not in the vocabulary"));
    }
    digest.AddInt(*left_id).AddInt(*right_id);
    if (vocabulary.Find(*id)->special) continue;
    model->merges_.insert_or_assign(PairKey(*left_id, *right_id),
                                    Merge{static_cast<std::int32_t>(rank), *id});
  }
  model->merges_digest_ = digest.Finish();
  return model;
}

absl::Status BpeModel::AppendCharacter(std::string_view character, std::uint32_t at,
                                       std::vector<Symbol>* symbols) const {
  const auto end = at + static_cast<std::uint32_t>(character.size());
  if (const auto it = whole_.find(ToAbsl(character)); it != whole_.end()) {
    symbols->push_back({it->second, at, end});
    return absl::OkStatus();
  }
  if (options_.byte_fallback) {
    bool complete = true;
    for (const char c : character) complete &= byte_ids_[static_cast<std::uint8_t>(c)] >= 0;
    if (complete) {
      for (const char c : character) {
        symbols->push_back({byte_ids_[static_cast<std::uint8_t>(c)], at, at + 1});
        ++at;
      }
      return absl::OkStatus();
    }
  }
  if (!unknown_id_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the vocabulary has no token for \"", absl::CHexEscape(ToAbsl(character)), "\""));
  }
  if (options_.fuse_unknown && !symbols->empty() && symbols->back().id == *unknown_id_) {
    symbols->back().end = end;
  } else {
    symbols->push_back({*unknown_id_, at, end});
  }
  return absl::OkStatus();
}

absl::Status BpeModel::Encode(std::string_view piece, std::vector<std::int32_t>* ids) const {
  if (piece.empty()) return absl::OkStatus();
  if (options_.ignore_merges) {
    if (const auto it = whole_.find(ToAbsl(piece)); it != whole_.end()) {
      ids->push_back(it->second);
      return absl::OkStatus();
    }
  }
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  if (options_.byte_level) {
    for (std::uint32_t i = 0; i < piece.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(piece[i]);
      if (byte_ids_[byte] < 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("the vocabulary has no token for the byte 0x%02x", unsigned{byte}));
      }
      symbols.push_back({byte_ids_[byte], i, i + 1});
    }
  } else {
    for (std::uint32_t i = 0; i < piece.size();) {
      const auto length = static_cast<std::uint32_t>(Utf8Length(piece[i]));
      SCD_RETURN_IF_ERROR(AppendCharacter(piece.substr(i, length), i, &symbols));
      i += length;
    }
  }
  MergeSymbols(&symbols, [this](const Symbol& left, const Symbol& right) -> std::optional<MergeRule> {
    const auto it = merges_.find(PairKey(left.id, right.id));
    if (it == merges_.end()) return std::nullopt;
    return MergeRule{static_cast<double>(it->second.rank), it->second.id};
  });
  for (const Symbol& symbol : symbols) ids->push_back(symbol.id);
  return absl::OkStatus();
}

void BpeModel::AddTo(DigestBuilder* digest) const {
  digest->AddString("bpe")
      .AddInt(options_.byte_level)
      .AddInt(options_.ignore_merges)
      .AddInt(options_.byte_fallback)
      .AddInt(options_.fuse_unknown)
      .AddString(options_.unknown_token)
      .AddDigest(merges_digest_);
}

}  // namespace scd
