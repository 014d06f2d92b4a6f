#include "common/model/tokenizer.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/model/hf_tokenizer.h"
#include "common/model/spm_tokenizer.h"
#include "common/model/tokenizer_config.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr double kMaxDifferingShare = 0.01;

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model_folder) {
  std::error_code ignored;
  const std::string json = model_folder + "/tokenizer.json";
  const std::string spm = model_folder + "/tokenizer.model";
  const bool has_json = std::filesystem::exists(json, ignored);
  if (!has_json && !std::filesystem::exists(spm, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(model_folder, ": has neither tokenizer.json nor tokenizer.model"));
  }
  SCD_ASSIGN_OR_RETURN(const TokenizerConfig config, LoadTokenizerConfig(model_folder));
  return has_json ? LoadTokenizerJson(json, config) : LoadSpmTokenizer(spm, config);
}

absl::StatusOr<std::vector<std::int32_t>> UntranslatableIds(const Tokenizer& producer,
                                                            const Tokenizer& consumer) {
  std::vector<std::int32_t> ids;
  std::int64_t tokens = 0, lacking = 0, changed = 0;
  for (std::int32_t id = 0; id < consumer.vocab_size(); ++id) {
    const auto theirs = producer.TokenText(id);
    const auto ours = consumer.TokenText(id);
    if (ours.has_value()) {
      ++tokens;
      if (ours == theirs) continue;
      ++(theirs.has_value() ? changed : lacking);
    }
    ids.push_back(id);
  }
  if (static_cast<double>(lacking + changed) > kMaxDifferingShare * static_cast<double>(tokens)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the tokenizers differ in more than added tokens: of the consumer's ", tokens,
                     " tokens the producer lacks ", lacking, " and has another text for ", changed));
  }
  return ids;
}

}  // namespace scd
