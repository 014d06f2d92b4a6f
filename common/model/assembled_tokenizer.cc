#include "common/model/assembled_tokenizer.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/model/detokenizer.h"
#include "common/model/string_views.h"
#include "common/model/unicode.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

// Offsets in a text are 32-bit, and no prompt comes near this.
constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

Digest MakeDigest(const TokenizerParts& parts) {
  DigestBuilder digest("scd.tokenizer.v1");
  const Vocabulary& vocabulary = parts.vocabulary;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (const Token* token = vocabulary.Find(id)) digest.AddInt(id).AddString(token->text);
  }
  digest.AddInt(-1);
  parts.encoder->AddTo(&digest);
  return digest.Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> AssembledTokenizer::Create(TokenizerParts parts) {
  const auto check = [&](std::string_view what, std::int32_t id) -> absl::Status {
    if (parts.vocabulary.Find(id) != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(what), " token id ", id, " is not in the vocabulary"));
  };
  if (parts.bos_id) SCD_RETURN_IF_ERROR(check("the bos", *parts.bos_id));
  if (parts.eos_id) SCD_RETURN_IF_ERROR(check("the eos", *parts.eos_id));
  for (const AddedToken& token : parts.added) SCD_RETURN_IF_ERROR(check("an added", token.id));
  for (const std::int32_t id : parts.prefix) SCD_RETURN_IF_ERROR(check("a default", id));
  for (const std::int32_t id : parts.suffix) SCD_RETURN_IF_ERROR(check("a default", id));

  auto tokenizer = absl::WrapUnique(new AssembledTokenizer(std::move(parts)));
  SCD_ASSIGN_OR_RETURN(tokenizer->with_special_, tokenizer->MakeMatchers(true));
  SCD_ASSIGN_OR_RETURN(tokenizer->without_special_, tokenizer->MakeMatchers(false));
  tokenizer->digest_ = MakeDigest(tokenizer->parts_);
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

absl::StatusOr<AssembledTokenizer::Matchers> AssembledTokenizer::MakeMatchers(bool allow_special) const {
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& token : parts_.added) {
    if (token.special && !allow_special) continue;
    if (!token.normalized) {
      raw.push_back(token);
      continue;
    }
    AddedToken changed = token;
    SCD_ASSIGN_OR_RETURN(changed.content, parts_.encoder->Normalize(token.content));
    if (!changed.content.empty()) normalized.push_back(std::move(changed));
  }
  return Matchers{AddedTokenMatcher(std::move(raw)), AddedTokenMatcher(std::move(normalized))};
}

absl::StatusOr<std::vector<std::int32_t>> AssembledTokenizer::Encode(std::string_view text,
                                                                     const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", text.size(), " bytes, more than the ", kMaxTextBytes, " allowed"));
  }
  SCD_RETURN_IF_ERROR(CheckUtf8(text));
  const Matchers& matchers = options.allow_special_tokens ? with_special_ : without_special_;
  std::vector<std::int32_t> ids;
  if (options.add_default_tokens) ids = parts_.prefix;

  TextPosition position{.at_start = true, .after_special = false};
  const auto add_token = [&](std::int32_t id) {
    ids.push_back(id);
    position = {.at_start = false, .after_special = parts_.vocabulary.Find(id)->special};
  };
  std::vector<Segment> segments;
  matchers.raw.Split(text, &segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      add_token(segment.id);
      continue;
    }
    SCD_ASSIGN_OR_RETURN(const std::string normalized, parts_.encoder->Normalize(segment.text));
    std::vector<Segment> inner;
    matchers.normalized.Split(normalized, &inner);
    for (const Segment& part : inner) {
      if (part.id >= 0) {
        add_token(part.id);
        continue;
      }
      SCD_RETURN_IF_ERROR(parts_.encoder->Encode(part.text, position, &ids));
      position = {};
    }
  }
  if (options.add_default_tokens) ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  return ids;
}

std::string AssembledTokenizer::TokenBytes(std::int32_t id, bool render_special) const {
  const Token* token = parts_.vocabulary.Find(id);
  if (token == nullptr || (token->special && !render_special)) return "";
  return token->bytes;
}

std::string AssembledTokenizer::Decode(absl::Span<const std::int32_t> ids, bool render_special) const {
  Detokenizer detokenizer(*this, render_special);
  std::string text;
  for (const std::int32_t id : ids) text += detokenizer.Add(id);
  return text + detokenizer.Finish();
}

std::optional<std::string> AssembledTokenizer::TokenText(std::int32_t id) const {
  const Token* token = parts_.vocabulary.Find(id);
  if (token == nullptr) return std::nullopt;
  return token->text;
}

std::optional<std::int32_t> AssembledTokenizer::TokenId(std::string_view token_text) const {
  return parts_.vocabulary.Id(token_text);
}

bool AssembledTokenizer::IsSpecial(std::int32_t id) const {
  const Token* token = parts_.vocabulary.Find(id);
  return token != nullptr && token->special;
}

}  // namespace scd
