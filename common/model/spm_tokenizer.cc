#include "common/model/spm_tokenizer.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/io/mapped_file.h"
#include "common/model/assembled_tokenizer.h"
#include "common/model/spm_model_file.h"
#include "common/model/spm_pieces.h"
#include "common/model/spm_processor.h"
#include "common/model/string_views.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

class SpmEncoder : public TextEncoder {
 public:
  // `without_prefix` may be null where the dummy prefix stands everywhere (or nowhere).
  SpmEncoder(std::unique_ptr<SpmProcessor> processor, std::unique_ptr<SpmProcessor> without_prefix,
             Digest rules)
      : processor_(std::move(processor)), without_prefix_(std::move(without_prefix)), rules_(rules) {}

  absl::Status Encode(std::string_view text, TextPosition position,
                      std::vector<std::int32_t>* ids) const override {
    const bool prefix = position.at_start || without_prefix_ == nullptr;
    std::string error;
    if ((prefix ? processor_ : without_prefix_)->Encode(text, ids, &error)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("sentencepiece: ", error));
  }

  void AddTo(DigestBuilder* digest) const override { digest->AddDigest(rules_); }

 private:
  std::unique_ptr<SpmProcessor> processor_;
  std::unique_ptr<SpmProcessor> without_prefix_;
  Digest rules_;
};

absl::StatusOr<std::unique_ptr<SpmProcessor>> LoadProcessor(std::string_view serialized) {
  std::string error;
  auto processor = SpmProcessor::Load(serialized, &error);
  if (processor == nullptr) return absl::InvalidArgumentError(absl::StrCat("sentencepiece: ", error));
  return processor;
}

std::optional<std::int32_t> IdOrNone(std::int32_t id) {
  if (id < 0) return std::nullopt;
  return id;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(std::string_view serialized, const TokenizerConfig& config) {
  SCD_ASSIGN_OR_RETURN(const SpmModelFile model, ParseSpmModelFile(serialized));
  TokenizerParts parts;
  AddedTokenMap added;
  SCD_RETURN_IF_ERROR(AddPieces(model.pieces, &parts.vocabulary, &added));
  SCD_ASSIGN_OR_RETURN(auto processor, LoadProcessor(serialized));
  if (processor->num_pieces() != static_cast<std::int32_t>(model.pieces.size())) {
    return absl::InvalidArgumentError("sentencepiece sees another number of pieces than the file has");
  }
  const std::optional<std::int32_t> bos = IdOrNone(processor->bos_id());
  const std::optional<std::int32_t> eos = IdOrNone(processor->eos_id());

  std::unique_ptr<SpmProcessor> without_prefix;
  if (model.add_dummy_prefix && !config.legacy) {
    SCD_ASSIGN_OR_RETURN(without_prefix,
                         LoadProcessor(absl::StrCat(ToAbsl(serialized), ToAbsl(NoDummyPrefixSuffix()))));
  }
  parts.encoder =
      std::make_unique<SpmEncoder>(std::move(processor), std::move(without_prefix),
                                   SpmRulesDigest(model.pieces, model.is_bpe, model.add_dummy_prefix));

  SCD_RETURN_IF_ERROR(MergeConfigTokens(config, &parts.vocabulary, &added));
  for (auto& [id, token] : added) parts.added.push_back(std::move(token));
  SCD_ASSIGN_OR_RETURN(parts.bos_id, NamedTokenId(config, "bos_token", config.bos_token, parts.vocabulary));
  SCD_ASSIGN_OR_RETURN(parts.eos_id, NamedTokenId(config, "eos_token", config.eos_token, parts.vocabulary));
  if (!parts.bos_id) parts.bos_id = bos;
  if (!parts.eos_id) parts.eos_id = eos;
  if (parts.bos_id && config.add_bos_token.value_or(true)) parts.prefix.push_back(*parts.bos_id);
  if (parts.eos_id && config.add_eos_token.value_or(false)) parts.suffix.push_back(*parts.eos_id);
  parts.strips_leading_space = model.add_dummy_prefix;
  return AssembledTokenizer::Create(std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSpmTokenizer(const std::string& path,
                                                            const TokenizerConfig& config) {
  SCD_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", file->size(), " bytes, more than the ", kMaxFileBytes, " allowed"));
  }
  auto tokenizer = Load(ToStd(file->text()), config);
  if (!tokenizer.ok() && !absl::StartsWith(tokenizer.status().message(), config.path)) {
    return absl::Status(tokenizer.status().code(), absl::StrCat(path, ": ", tokenizer.status().message()));
  }
  return tokenizer;
}

}  // namespace scd
